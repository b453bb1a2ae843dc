//! Dispatch: whether a step of an execution may start now, in which class, and what it takes. A rule can delay a step; it
//! cannot reject it.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::{AssetId, tolerant};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    check::{CheckName, Delay, Recheck, join_delays, stamp_delays},
    claim::Claim,
    error::BoxError,
    operation::{ExecutionId, StartCause},
    reader::IncarnationReader,
    run::Cause,
    time::{Mono, Now},
    workflow::MachineName,
};

/// The order in which steps that are due start: the greatest class first, and within a class the oldest first. A due step
/// rises by one class per minute.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Work that a slot of a schedule started.
    Background,
    /// The start of an execution.
    #[default]
    New,
    /// A step of an execution that has begun.
    UnderWay,
    /// Clean-up, and work that the push of a rollback or of an emergency started.
    Urgent,
}

impl Class {
    /// The class of a step by its cause alone. `step`: whether it is a step of an execution that has begun, and not the
    /// start of one.
    pub fn of(cause: &StartCause, step: bool, cleans_up: bool) -> Self {
        match cause {
            _ if cleans_up => Self::Urgent,
            StartCause::Push {
                cause: Cause::Rollback | Cause::Emergency,
                ..
            } => Self::Urgent,
            StartCause::Slot { .. } => Self::Background,
            _ if step => Self::UnderWay,
            _ => Self::New,
        }
    }
}

/// A class that this program version does not know is the least one.
fn class<'de, D: Deserializer<'de>>(from: D) -> Result<Class, D::Error> {
    tolerant::known_or(from, |_| Class::Background)
}

/// Asks whether an attempt of a step, or the start of an execution, may begin now.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DispatchRequest {
    /// The execution that the attempt belongs to, with the name of its workflow.
    pub execution: ExecutionId,
    /// The step that is due. `None`: the execution itself is to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<MachineName>,
    /// The function that the step calls. `None`: it calls none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<Arc<str>>,
    /// Labels of the execution, such as `app`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Arc<BTreeMap<String, String>>,
    /// The reason why the execution was started.
    pub cause: StartCause,
    /// The class by cause: [`Class::of`]. The base service answers with it.
    #[serde(deserialize_with = "class")]
    pub class: Class,
    /// Number of the attempt in its run, from 1. 0 for the start of an execution.
    pub attempt: u32,
    /// Wall-clock time since which the attempt is due.
    pub since: Timestamp,
    /// Wall-clock time of the request. It may jump. Use it for calendars.
    pub now: Timestamp,
    /// Monotonic time of the calling process at the same moment.
    pub mono: Mono,
    /// Reads the newest incarnation, for rules that are assets. Not serialized.
    #[serde(skip)]
    pub reader: IncarnationReader,
}

impl fmt::Debug for DispatchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatchRequest")
            .field("execution", &self.execution)
            .field("step", &self.step)
            .field("cause", &self.cause)
            .field("class", &self.class)
            .field("attempt", &self.attempt)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl DispatchRequest {
    /// Asks for the start of an execution, due since now. Its class is that of its cause.
    pub fn start(execution: ExecutionId, cause: StartCause, now: Now) -> Self {
        Self {
            execution,
            step: None,
            function: None,
            labels: Arc::default(),
            class: Class::of(&cause, false, false),
            cause,
            attempt: 0,
            since: now.wall,
            now: now.wall,
            mono: now.mono,
            reader: IncarnationReader::default(),
        }
    }

    /// Asks for the first attempt of `step`, which calls `function`, of the same execution. `cleans_up`: the step cleans
    /// up.
    #[must_use]
    pub fn step(mut self, step: MachineName, function: Option<Arc<str>>, cleans_up: bool) -> Self {
        self.class = Class::of(&self.cause, true, cleans_up);
        (self.step, self.function, self.attempt) = (Some(step), function, 1);
        self
    }

    crate::setters! {
        /// Sets the labels of the execution.
        labels: Arc<BTreeMap<String, String>>,
        /// Sets the number of the attempt, from 1.
        attempt: u32,
        /// Sets the time since which the attempt is due.
        since: Timestamp,
        /// Sets the reader of the newest incarnation.
        reader: IncarnationReader,
    }

    /// Whether the request is for the start of an execution.
    pub fn is_start(&self) -> bool {
        self.step.is_none()
    }

    /// The value of a label of the execution.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    /// Nothing against it: the class by cause, without delays and claims, from evidence of now.
    pub fn go(&self) -> Dispatch {
        Dispatch {
            class: self.class,
            delays: Vec::new(),
            claims: Vec::new(),
            as_of: self.now,
        }
    }

    /// One delay, from evidence of now. It is looked at again after 30 seconds, unless the answer says otherwise.
    ///
    /// ```
    /// # use plugin_sdk::{Dispatch, DispatchRequest};
    /// # use std::time::Duration;
    /// # fn dispatch(request: DispatchRequest) -> Dispatch {
    /// request.delay("the press is being repaired").recheck_after(Duration::from_secs(600))
    /// # }
    /// ```
    pub fn delay(&self, reason: impl Into<String>) -> Dispatch {
        self.go().delayed(Delay::soon(reason))
    }
}

/// The answer of a dispatch rule, or of a stack of them: class, delays, claims, and the age of the evidence.
///
/// Answers form a join-semilattice: [`Dispatch::join`] only adds, and the result does not depend on order or repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Dispatch {
    /// The class in which the step starts. A layer may only raise it.
    #[serde(deserialize_with = "class")]
    pub class: Class,
    /// The reasons to wait. Empty: the step may start.
    pub delays: Vec<Delay>,
    /// Resources that the step takes until it leaves its waiting state, or the execution takes until it ends. The kernel
    /// counts them and starts the attempt only if all are free; layers never count.
    pub claims: Vec<Claim>,
    /// Wall-clock time of the oldest evidence.
    pub as_of: Timestamp,
}

impl Dispatch {
    /// Adds a reason to wait.
    #[must_use]
    pub fn delayed(self, delay: Delay) -> Self {
        let delays = join_delays(self.delays, vec![delay]);
        Self { delays, ..self }
    }

    /// Adds a resource that the step takes.
    #[must_use]
    pub fn claim(mut self, claim: Claim) -> Self {
        self.claims.push(claim);
        self.claims.sort();
        self.claims.dedup();
        self
    }

    /// Raises the class to `class`, if that is greater.
    #[must_use]
    pub fn at_least(mut self, class: Class) -> Self {
        self.class = self.class.max(class);
        self
    }

    /// Sets when the delays are looked at again: after this much time.
    #[must_use]
    pub fn recheck_after(self, time: Duration) -> Self {
        self.recheck(&Recheck::After(time))
    }

    /// Sets when the delays are looked at again: at this wall-clock time, not earlier.
    #[must_use]
    pub fn recheck_at(self, time: Timestamp) -> Self {
        self.recheck(&Recheck::At(time))
    }

    /// Sets when the delays are looked at again: as soon as `asset` is settled.
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

    /// Whether there is no reason to wait.
    pub fn is_go(&self) -> bool {
        self.delays.is_empty()
    }

    /// Combines two answers: the greater class, all delays and claims of both, and the older evidence time.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.class = self.class.max(other.class);
        self.delays = join_delays(self.delays, other.delays);
        self.claims.extend(other.claims);
        self.claims.sort();
        self.claims.dedup();
        self.as_of = self.as_of.min(other.as_of);
        self
    }

    /// Stamps `name` on each delay. Another name that is not `own` is put before the reason.
    pub(crate) fn stamped(mut self, name: &CheckName, own: &CheckName) -> Self {
        stamp_delays(&mut self.delays, name, own, None);
        self
    }
}

/// Decides in which class a step of an execution starts, whether it has to wait, and what it takes.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{BoxError, CheckName, Claim, Dispatch, DispatchPlugin, DispatchRequest};
///
/// /// At most ten steps of one app at once.
/// struct Fair;
///
/// #[async_trait]
/// impl DispatchPlugin for Fair {
///     fn name(&self) -> CheckName {
///         "fair".into()
///     }
///     async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError> {
///         Ok(match request.label("app") {
///             Some(app) => {
///                 let key = format!("fair/{app}");
///                 request.go().claim(Claim::AtMost(key.as_str().into(), 10))
///             }
///             None => request.go(),
///         })
///     }
/// }
/// ```
#[async_trait]
pub trait DispatchPlugin: Send + Sync + 'static {
    /// The name of the rule, which its delays carry.
    fn name(&self) -> CheckName;

    /// Answers for one attempt, or for the start of an execution.
    ///
    /// # Errors
    /// If the rule cannot decide. An error or a timeout counts as a delay.
    async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError>;
}
