//! Checks decide whether a push may start now. A check can delay a push; it cannot reject it.

mod delay;
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
    reader::IncarnationReader,
    run::{Cause, Causes, Stamp},
    time::{Mono, Now},
};

pub use delay::{AWAITS_APPROVAL, DEAD_END, Delay, Recheck};
pub(crate) use delay::{join_delays, stamp_delays};
pub use name::CheckName;
pub(crate) use name::StackId;

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
    /// Whether no push is due: a rollout asks before it moves the pin of the asset. No push begins by the verdict.
    #[serde(default)]
    pub ahead: bool,
    /// Wall-clock time of the request. It may jump. Use it for calendars and for the age of evidence
    /// ([`Verdict::as_of`]).
    pub now: Timestamp,
    /// Monotonic time of the calling process at the same moment. Use it to measure the time between two requests. A
    /// reading lower than one of an earlier request comes from another process; the two are not comparable.
    pub mono: Mono,
    /// The approvals of this change by people that count now: given since the asset last settled, and not withdrawn or expired.
    #[serde(default)]
    pub approvals: Vec<Approved>,
    /// Reads the newest assets in intent, such as policies. Not serialized.
    #[serde(skip)]
    pub newest: IncarnationReader,
    /// Shows the other assets of the partition. Not serialized. `None` outside an enforcer.
    #[serde(skip)]
    pub view: Option<Arc<dyn PartitionView>>,
}

/// An approval of a change by a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// The name of the person.
    pub by: Arc<str>,
    /// Time at which the approval was given.
    pub at: Timestamp,
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
            ahead: false,
            approvals: Vec::new(),
            newest: IncarnationReader::default(),
            now: now.wall,
            mono: now.mono,
            view: None,
        }
    }

    crate::setters! {
        /// Sets the reason for the push.
        cause: Cause,
        /// Sets whether no push is due.
        ahead: bool,
        /// Sets the approvals of the change that count now.
        approvals: Vec<Approved>,
        /// Sets the reader of the newest assets in intent.
        newest: IncarnationReader,
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
        Verdict::delay(self.now, Delay::soon(reason))
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
        stamp_delays(&mut self.delays, name, own, stack);
        self
    }

    /// Whether the verdict contains no delay.
    pub fn is_proceed(&self) -> bool {
        self.delays.is_empty()
    }

    /// Combines two verdicts: all delays, stamps and claims of both, and the older evidence time.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.delays = join_delays(self.delays, other.delays);
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
