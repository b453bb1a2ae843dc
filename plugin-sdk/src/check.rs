//! Checks: whether a push may start now. They delay, never reject.

mod name;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::{AssetId, IncarnationId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    diff::{Change, Observed},
    error::BoxError,
    observe::PartitionView,
    reader::IncarnationReader,
    run::{Cause, Causes, Stamp},
    time::Mono,
};

pub use name::CheckName;
pub(crate) use name::StackId;

/// May this change be pushed now?
#[derive(Clone, Serialize, Deserialize)]
pub struct CheckRequest {
    /// The asset to be pushed.
    pub asset: AssetId,
    /// At which incarnation.
    pub incarnation: IncarnationId,
    /// What the push would change.
    pub change: Arc<Change>,
    /// What production has.
    pub observed: Observed,
    /// Why it is pushed.
    pub cause: Cause,
    /// The wall clock, which may jump: for calendars, and for the birth of evidence.
    pub now: Timestamp,
    /// The monotonic clock of the process that asks, at the same moment: for measuring time between two requests. A
    /// reading that is less than one of an earlier request is of another process, and is not comparable.
    pub mono: Mono,
    /// Reads `incarnation`; travels beside the data.
    #[serde(skip)]
    pub reader: IncarnationReader,
    /// The rest of the partition; travels beside the data. `None` outside an enforcer.
    #[serde(skip)]
    pub view: Option<Arc<dyn PartitionView>>,
}

impl fmt::Debug for CheckRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckRequest")
            .field("asset", &self.asset)
            .field("incarnation", &self.incarnation)
            .field("change", &self.change)
            .field("cause", &self.cause)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// What checks found. A join-semilattice: [`Verdict::join`] only adds, in any order and any number of times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Why the push must wait. Empty: proceed.
    pub delays: Vec<Delay>,
    /// The findings about other assets that this verdict rests on.
    pub relies_on: Vec<Stamp>,
    /// What the push takes while it runs. Counted by the enforcer's kernel, never by a layer.
    pub claims: Vec<Claim>,
    /// The age of the oldest evidence.
    pub as_of: Timestamp,
}

/// One reason to wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// The name of the check that says so. Stamped by the layer that put the check into its stack: what a check writes
    /// here is replaced.
    pub check: CheckName,
    /// Why, for people.
    pub reason: String,
    /// What it rests on.
    pub evidence: Value,
    /// When to look again.
    pub recheck: Recheck,
}

/// The field of [`Delay::evidence`] that marks a dead end. Its text names the edit or the word that ends the wait.
pub const DEAD_END: &str = "dead_end";

impl Delay {
    /// What ends the wait, if it is a dead end: no push at any asset's present pin will. See [`DEAD_END`].
    pub fn dead_end(&self) -> Option<&str> {
        self.evidence.get(DEAD_END)?.as_str()
    }

    /// A delay for one reason, without evidence. The layer that the check is in names the check.
    pub fn new(reason: impl Into<String>, recheck: Recheck) -> Self {
        Self {
            check: CheckName::default(),
            reason: reason.into(),
            evidence: Value::Null,
            recheck,
        }
    }

    /// Says what it rests on.
    #[must_use]
    pub fn because(self, evidence: impl Into<Value>) -> Self {
        Self {
            evidence: evidence.into(),
            ..self
        }
    }

    /// A total order, so that joined verdicts do not depend on who came first.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let rest = |delay: &Self| delay.evidence.to_string();
        (&self.check, &self.reason, &self.recheck)
            .cmp(&(&other.check, &other.reason, &other.recheck))
            .then_with(|| rest(self).cmp(&rest(other)))
            .then_with(|| self.check.stack().cmp(&other.check.stack()))
    }
}

/// When a delayed push is looked at again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recheck {
    /// Then, not earlier.
    At(Timestamp),
    /// After this time.
    After(Duration),
    /// As soon as that asset is settled.
    WhenSettled(AssetId),
}

/// A name that claims are counted under.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub Arc<str>);

impl Key {
    /// Under which the enforcer counts what consumers use of `provider` in `unit`. See
    /// [`PartitionView::usage`].
    pub fn capacity(provider: &AssetId, unit: &str) -> Self {
        Self(format!("capacity of {provider} in {unit}").into())
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        Self(key.into())
    }
}

/// What a push takes while it runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Claim {
    /// One holder at a time, until the push's outcome is known.
    Exclusive(Key),
    /// At most so many holders, each until its asset settles, fails for good or is re-pinned.
    AtMost(Key, u32),
    /// So many units, of `limit` in all, until the push's outcome is known. Under [`Key::capacity`], what the other
    /// consumers were last seen to use counts too.
    Amount {
        /// What it is counted under.
        key: Key,
        /// How many units the asset has at most while the push runs, those that it had before included.
        units: u64,
        /// How many units there are.
        limit: u64,
    },
    /// Pushes per time; never given back.
    Rate(Key, Quota),
}

impl Claim {
    /// What it is counted under.
    pub fn key(&self) -> &Key {
        match self {
            Self::Exclusive(key)
            | Self::AtMost(key, _)
            | Self::Amount { key, .. }
            | Self::Rate(key, _) => key,
        }
    }
}

/// `burst` at once, then one every `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Quota {
    /// How many at once.
    pub burst: u32,
    /// The time until the next one is allowed.
    pub every: Duration,
}

impl Verdict {
    /// Nothing against it, as of `now`.
    pub fn proceed(now: Timestamp) -> Self {
        Self {
            delays: Vec::new(),
            relies_on: Vec::new(),
            claims: Vec::new(),
            as_of: now,
        }
    }

    /// Wait for one reason.
    pub fn delay(now: Timestamp, delay: Delay) -> Self {
        Self {
            delays: vec![delay],
            ..Self::proceed(now)
        }
    }

    /// Adds a claim.
    #[must_use]
    pub fn claim(mut self, claim: Claim) -> Self {
        self.claims.push(claim);
        self
    }

    /// Stamps `name` on each delay but those whose name is registered in `stack`. Another name that was written there, if
    /// it is not `own`, is put before the reason.
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

    /// Whether nothing delays.
    pub fn is_proceed(&self) -> bool {
        self.delays.is_empty()
    }

    /// Both findings together.
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

/// What a check says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckInfo {
    /// The name that it is registered under, unless the layer gives it another one.
    pub name: CheckName,
    /// For which causes it applies. Checks that must not block the cure say [`Causes::INTENT`].
    pub causes: Causes,
}

/// Says whether an asset can be pushed now or must wait.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{BoxError, CheckInfo, CheckPlugin, CheckRequest, Causes, Delay, Recheck, Verdict};
/// use std::time::Duration;
///
/// /// Nothing destructive while a lock file is there.
/// struct LockFile(std::path::PathBuf);
///
/// #[async_trait]
/// impl CheckPlugin for LockFile {
///     fn info(&self) -> CheckInfo {
///         CheckInfo { name: "lock-file".into(), causes: Causes::ALL }
///     }
///     async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
///         if !self.0.try_exists()? {
///             return Ok(Verdict::proceed(request.now));
///         }
///         let reason = format!("{} is there; remove it", self.0.display());
///         let delay = Delay::new(reason, Recheck::After(Duration::from_secs(10)));
///         Ok(Verdict::delay(request.now, delay))
///     }
/// }
/// ```
#[async_trait]
pub trait CheckPlugin: Send + Sync + 'static {
    /// Its name, and for which causes it applies.
    fn info(&self) -> CheckInfo;

    /// Looks whether the push may start.
    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError>;
}
