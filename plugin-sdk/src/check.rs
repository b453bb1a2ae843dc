//! Checks decide whether a push may start now. A check can delay a push; it cannot reject it.

mod name;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    claim::Claim,
    diff::{Change, Observed},
    error::BoxError,
    intent::{AssetIntent, about_one_asset},
    observe::PartitionView,
    run::{Cause, Causes, Stamp},
    time::{Mono, Now},
};

pub use name::CheckName;
pub(crate) use name::StackId;

/// Time until a delayed push is checked again, unless its check says otherwise.
const AGAIN: Duration = Duration::from_secs(30);

/// Asks a check whether a change may be pushed now.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckRequest {
    /// The asset that is to be pushed, and the incarnation whose content the push would bring to production.
    #[serde(flatten)]
    pub intent: AssetIntent,
    /// The change that the push would make, as the asset's diff found it.
    pub change: Arc<Change>,
    /// The state of the asset in production, as the same diff found it.
    pub observed: Observed,
    /// The reason for the push. Checks can apply to some causes only: see [`CheckInfo::causes`].
    pub cause: Cause,
    /// Wall-clock time of the request. It may jump. Use it for calendars and for the age of evidence
    /// ([`Verdict::as_of`]).
    pub now: Timestamp,
    /// Monotonic time of the calling process at the same moment. Use it to measure the time between two requests. A
    /// reading lower than one of an earlier request comes from another process; the two are not comparable.
    pub mono: Mono,
    /// Shows the other assets of the partition. Not serialized. `None` outside an enforcer.
    #[serde(skip)]
    pub view: Option<Arc<dyn PartitionView>>,
}

impl fmt::Debug for CheckRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckRequest")
            .field("intent", &self.intent)
            .field("change", &self.change)
            .field("cause", &self.cause)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl CheckRequest {
    /// Makes a request as the enforcer does; tests of checks use it too. The cause is [`Cause::Intent`], and there is no
    /// view.
    pub fn new(intent: AssetIntent, change: Arc<Change>, observed: Observed, now: Now) -> Self {
        Self {
            intent,
            change,
            observed,
            cause: Cause::Intent,
            now: now.wall,
            mono: now.mono,
            view: None,
        }
    }

    crate::setters! {
        /// Sets the reason for the push.
        cause: Cause,
    }

    about_one_asset!();

    /// Sets the view of the other assets of the partition.
    #[must_use]
    pub fn view(mut self, view: Arc<dyn PartitionView>) -> Self {
        self.view = Some(view);
        self
    }

    /// A verdict without delays and claims, from evidence of now.
    pub fn proceed(&self) -> Verdict {
        Verdict::proceed(self.now)
    }

    /// A verdict with one delay, from evidence of now. The push is checked again after 30 seconds, unless the verdict says
    /// otherwise.
    ///
    /// ```
    /// # use plugin_sdk::{CheckRequest, Verdict};
    /// # use std::time::Duration;
    /// # fn check(request: CheckRequest) -> Verdict {
    /// request.delay("an incident is open").recheck_after(Duration::from_secs(10))
    /// # }
    /// ```
    pub fn delay(&self, reason: impl Into<String>) -> Verdict {
        Verdict::delay(self.now, Delay::new(reason, Recheck::After(AGAIN)))
    }
}

/// The answer of a check, or of a stack of checks: delays, claims, and the evidence that it rests on.
///
/// Verdicts form a join-semilattice: [`Verdict::join`] only adds, and the result does not depend on order or
/// repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Verdict {
    /// The reasons to wait. Empty: the push may proceed.
    pub delays: Vec<Delay>,
    /// Stamps of the observations of other assets that this verdict rests on. The push is admitted only if none of
    /// these assets has been pushed since.
    pub relies_on: Vec<Stamp>,
    /// Resources that the push takes. The enforcer's kernel counts them and admits the push only if all are free;
    /// layers never count.
    pub claims: Vec<Claim>,
    /// Wall-clock time of the oldest evidence. By default the enforcer refuses verdicts whose evidence is 60 seconds
    /// old or older.
    pub as_of: Timestamp,
}

/// One reason why a push has to wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delay {
    /// Name of the check that delays. The layer that put the check into its stack stamps this name; a name written by
    /// the check itself is replaced.
    pub check: CheckName,
    /// Why the push waits, in a line for operators.
    pub reason: String,
    /// The evidence for the delay, as JSON. `Null`: none. The field [`DEAD_END`] marks a dead end.
    pub evidence: Value,
    /// When the push is checked again.
    pub recheck: Recheck,
}

/// The field of [`Delay::evidence`] that marks a dead end: a wait that no push can end. Its value is text that names
/// the edit or the command that ends the wait.
pub const DEAD_END: &str = "dead_end";

impl Delay {
    /// The edit or command that ends this wait, if it is a dead end. `None`: a push of some asset at its present pin
    /// may end it. See [`DEAD_END`].
    pub fn dead_end(&self) -> Option<&str> {
        self.evidence.get(DEAD_END)?.as_str()
    }

    /// Makes a delay without evidence. The check's name is stamped later, by the layer of the check.
    pub fn new(reason: impl Into<String>, recheck: Recheck) -> Self {
        Self {
            check: CheckName::default(),
            reason: reason.into(),
            evidence: Value::Null,
            recheck,
        }
    }

    /// Sets the name of the check that delays, for verdicts that no layer stamps.
    #[must_use]
    pub fn check(mut self, check: impl Into<CheckName>) -> Self {
        self.check = check.into();
        self
    }

    /// Sets the evidence of the delay, as JSON.
    #[must_use]
    pub fn because(mut self, evidence: impl Into<Value>) -> Self {
        self.evidence = evidence.into();
        self
    }

    /// A total order, so that a joined verdict does not depend on the order of its parts.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let rest = |delay: &Self| delay.evidence.to_string();
        (&self.check, &self.reason, &self.recheck)
            .cmp(&(&other.check, &other.reason, &other.recheck))
            .then_with(|| rest(self).cmp(&rest(other)))
            .then_with(|| self.check.stack().cmp(&other.check.stack()))
    }
}

/// When a delayed push is checked again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recheck {
    /// At this wall-clock time, not earlier.
    At(Timestamp),
    /// After this much time has passed.
    After(Duration),
    /// As soon as this asset is settled.
    WhenSettled(AssetId),
}

impl Verdict {
    /// A verdict without delays and claims, from evidence of the time `now`.
    pub fn proceed(now: Timestamp) -> Self {
        Self {
            delays: Vec::new(),
            relies_on: Vec::new(),
            claims: Vec::new(),
            as_of: now,
        }
    }

    /// A verdict with one delay, from evidence of the time `now`.
    pub fn delay(now: Timestamp, delay: Delay) -> Self {
        Self {
            delays: vec![delay],
            ..Self::proceed(now)
        }
    }

    /// Sets when the delays are checked again: after this much time.
    #[must_use]
    pub fn recheck_after(self, time: Duration) -> Self {
        self.recheck(&Recheck::After(time))
    }

    /// Sets when the delays are checked again: at this wall-clock time, not earlier.
    #[must_use]
    pub fn recheck_at(self, time: Timestamp) -> Self {
        self.recheck(&Recheck::At(time))
    }

    /// Sets when the delays are checked again: as soon as `asset` is settled.
    #[must_use]
    pub fn recheck_when_settled(self, asset: AssetId) -> Self {
        self.recheck(&Recheck::WhenSettled(asset))
    }

    fn recheck(mut self, when: &Recheck) -> Self {
        for delay in &mut self.delays {
            delay.recheck = when.clone();
        }
        self
    }

    /// Sets the evidence of the delays, as JSON.
    #[must_use]
    pub fn because(mut self, evidence: impl Into<Value>) -> Self {
        let evidence = evidence.into();
        for delay in &mut self.delays {
            delay.evidence = evidence.clone();
        }
        self
    }

    /// Adds a claim to the verdict.
    #[must_use]
    pub fn claim(mut self, claim: Claim) -> Self {
        self.claims.push(claim);
        self
    }

    /// Stamps `name` on each delay, except delays whose name is registered in `stack`. If a delay had another name that
    /// is neither `name` nor `own`, that name is put before the reason.
    pub(crate) fn stamped(
        mut self,
        name: &CheckName,
        own: &CheckName,
        stack: Option<StackId>,
    ) -> Self {
        let registered = |name: &CheckName| stack.is_some() && name.stack() == stack;
        let delays = self.delays.iter_mut();
        for delay in delays.filter(|delay| !registered(&delay.check)) {
            let written = std::mem::replace(&mut delay.check, name.clone());
            if written != *name && written != *own && !written.as_str().is_empty() {
                delay.reason = format!("{written}: {}", delay.reason);
            }
        }
        if self.delays.len() > 1 {
            self.delays.sort_by(Delay::order);
        }
        self
    }

    /// Whether the verdict contains no delay.
    pub fn is_proceed(&self) -> bool {
        self.delays.is_empty()
    }

    /// Combines two verdicts: all delays, stamps and claims of both, and the older evidence time.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.delays.extend(other.delays);
        self.delays.sort_by(Delay::order);
        self.delays.dedup_by(|one, other| one.order(other).is_eq());
        self.relies_on.extend(other.relies_on);
        self.relies_on.sort();
        self.relies_on.dedup();
        self.claims.extend(other.claims);
        self.claims.sort();
        self.claims.dedup();
        self.as_of = self.as_of.min(other.as_of);
        self
    }
}

/// The name of a check and the causes for which it applies.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckInfo {
    /// The name under which the check is registered, unless its layer sets another one.
    pub name: CheckName,
    /// The causes for which the check applies. Use [`Causes::INTENT`] for checks that must not delay repairs and
    /// rollbacks.
    pub causes: Causes,
}

impl CheckInfo {
    /// A check that applies to all causes.
    pub fn new(name: impl Into<CheckName>) -> Self {
        Self {
            name: name.into(),
            causes: Causes::ALL,
        }
    }

    /// Sets the causes for which the check applies.
    #[must_use]
    pub fn only_for(mut self, causes: Causes) -> Self {
        self.causes = causes;
        self
    }
}

/// Decides whether an asset can be pushed now or has to wait.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{BoxError, CheckInfo, CheckPlugin, CheckRequest, Verdict};
/// use std::time::Duration;
///
/// /// Delays every push while a lock file exists.
/// struct LockFile(std::path::PathBuf);
///
/// #[async_trait]
/// impl CheckPlugin for LockFile {
///     fn info(&self) -> CheckInfo {
///         CheckInfo::new("lock-file")
///     }
///     async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
///         if !self.0.try_exists()? {
///             return Ok(request.proceed());
///         }
///         let reason = format!("{} exists; remove it", self.0.display());
///         Ok(request.delay(reason).recheck_after(Duration::from_secs(10)))
///     }
/// }
/// ```
#[async_trait]
pub trait CheckPlugin: Send + Sync + 'static {
    /// The name of the check and the causes for which it applies.
    fn info(&self) -> CheckInfo;

    /// Checks whether the push may start now.
    ///
    /// # Errors
    /// If the check cannot decide. An error or a timeout counts as a delay.
    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError>;
}
