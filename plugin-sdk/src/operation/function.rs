//! Functions: the steps of operations and workflows that users write.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use prodspec_model::operation::Power;
use serde::{Deserialize, Serialize};

use super::{EffectKey, FunctionRequest, InvalidPower, Powers, Probed, Ran};
use crate::{error::PluginError, push::Guard};

/// Time for one call of a function, unless its info says otherwise.
const DEADLINE: Duration = Duration::from_secs(60);

/// What the control plane knows about a function before it calls it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FunctionInfo {
    /// The name under which the function is registered, and by which steps refer to it.
    pub name: Arc<str>,
    /// What may be done when it is not known whether a call took effect.
    #[serde(default)]
    pub repeat: Repeat,
    /// Whether the callee refuses calls of old attempts and owners.
    #[serde(default)]
    pub guard: Guard,
    /// What the answers of the function may contain.
    #[serde(default)]
    pub may: Vec<Power>,
    /// Time after which a call counts as one without an answer.
    #[serde(default = "deadline")]
    pub deadline: Duration,
    /// `true`: the function answers from memory, without waiting and without blocking its thread. It is then called inside
    /// the loop of the workflows and costs no task. One that blocks nevertheless stops the loop. What has no answer at once
    /// is waited for outside of the loop. Default `false`: calls run outside of the loop. Only the process that calls the
    /// function needs to know, so this is not serialized.
    #[serde(skip)]
    pub in_memory: bool,
}

fn deadline() -> Duration {
    DEADLINE
}

impl FunctionInfo {
    /// A function named `name`. By default it is never repeated when an outcome is unknown, its callee is advisory, it may
    /// do nothing, and a call may take 60 seconds.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            repeat: Repeat::default(),
            guard: Guard::default(),
            may: Vec::new(),
            deadline: deadline(),
            in_memory: false,
        }
    }

    /// Declares that the function answers from memory. See [`FunctionInfo::in_memory`].
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    crate::setters! {
        /// Sets what may be done when it is not known whether a call took effect.
        repeat: Repeat,
        /// Sets whether the callee refuses calls of old attempts and owners.
        guard: Guard,
        /// Sets the time after which a call counts as one without an answer.
        deadline: Duration,
    }

    /// Adds a power that the answers of the function may use.
    #[must_use]
    pub fn may(mut self, power: Power) -> Self {
        self.may.push(power);
        self
    }

    /// The powers of the function, ready to be compared with answers.
    ///
    /// # Errors
    /// When a pattern of fields cannot be read.
    pub fn powers(&self) -> Result<Powers, InvalidPower> {
        Powers::read(&self.may)
    }
}

impl From<&str> for FunctionInfo {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// What may be done when it is not known whether a call took effect: after a deadline, the death of a process, or a lost
/// answer. A [`Probe`] is asked first, if there is one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repeat {
    /// Call it again: the function is pure. It looks and answers, and has no effect itself.
    Safe,
    /// Call it again with the same key, once the old attempt is fenced off: the callee makes the effect of a key once.
    Keyed,
    /// Do not call it again: a person says what happened.
    #[default]
    Never,
}

/// One step of an operation or of a workflow: looks, and says what should be.
///
/// Edits, pauses and starts are returned in the answer; the control plane makes them, in one commit with the step. Effects
/// elsewhere are the function's own: declare with [`FunctionInfo::repeat`] what a second call does.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{
///     FieldEdit, FieldPath, OperationFunction, plugin,
///     operation::{Answer, FunctionInfo, FunctionRequest, Power, Ran, Repeat, Requirement},
///     testing::Thing,
/// };
///
/// /// Chooses a cluster for each app that changed.
/// struct Place;
///
/// #[async_trait]
/// impl OperationFunction for Place {
///     fn info(&self) -> FunctionInfo {
///         let cluster = Power::edit("apps.yaml", "apps.*.cluster");
///         FunctionInfo::new("place").repeat(Repeat::Safe).may(cluster)
///     }
///     async fn run(&self, request: FunctionRequest) -> Result<Ran, plugin::Error> {
///         let Some(clusters) = request.required("clusters") else {
///             let clusters = Requirement::all::<Thing>().under("cluster/").with_status();
///             return Ok(Ran::needs("clusters", clusters));
///         };
///         let Some(best) = clusters.iter().find(|cluster| cluster.is_in_sync()) else {
///             return Err(plugin::Error::transient("no cluster is in sync"));
///         };
///         let mut answer = Answer::new();
///         for app in request.required("changed").into_iter().flatten() {
///             let field = FieldPath::keys(["apps", app.asset.id_str(), "cluster"]);
///             let edit = FieldEdit::add("apps.yaml#0", field, best.asset.id_str());
///             answer = answer.edit("apps.yaml", edit);
///         }
///         Ok(answer.output(&best.asset.id_str())?.done())
///     }
/// }
/// ```
#[async_trait]
pub trait OperationFunction: Send + Sync + 'static {
    /// Name, powers and deadline of the function, and what may be done after an unknown outcome. Always the same.
    fn info(&self) -> FunctionInfo;

    /// Runs the function once.
    ///
    /// # Errors
    /// If the function fails. The class of the error decides when it is tried again. Return [`PluginError::Unknown`] if an
    /// effect may have happened.
    async fn run(&self, request: FunctionRequest) -> Result<Ran, PluginError>;
}

/// Makes a function of an async function. `info` is its name, or all of its info.
///
/// ```
/// use plugin_sdk::{OperationFunction, operation::{self, Answer, FunctionInfo, FunctionRequest, Ran, Repeat}, plugin};
///
/// /// Refuses edits of more than ten fields.
/// async fn few(request: FunctionRequest) -> Result<Ran, plugin::Error> {
///     match request.edits.len() {
///         0..=10 => Ok(Answer::new().done()),
///         many => Err(plugin::Error::permanent(format!("{many} edits at once; split them"))),
///     }
/// }
///
/// let few = operation::from_fn(FunctionInfo::new("few").repeat(Repeat::Safe), few);
/// assert_eq!(few.info().repeat, Repeat::Safe);
/// ```
pub fn from_fn<F, R>(info: impl Into<FunctionInfo>, function: F) -> FromFn<F>
where
    F: Fn(FunctionRequest) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Ran, PluginError>> + Send,
{
    let info = info.into();
    FromFn { info, function }
}

/// An async function with the info of a function. Made by [`from_fn`].
#[derive(Clone)]
pub struct FromFn<F> {
    info: FunctionInfo,
    function: F,
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FromFn").field(&self.info).finish()
    }
}

#[async_trait]
impl<F, R> OperationFunction for FromFn<F>
where
    F: Fn(FunctionRequest) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Ran, PluginError>> + Send,
{
    fn info(&self) -> FunctionInfo {
        self.info.clone()
    }

    async fn run(&self, request: FunctionRequest) -> Result<Ran, PluginError> {
        (self.function)(request).await
    }
}

/// Finds out whether the effect of a key happened, when an outcome is unknown. Optional: without it,
/// [`FunctionInfo::repeat`] alone decides. Test the laws with `conformance::FunctionSuite::run_probe`.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{Probe, operation::{Answer, EffectKey, Probed}, plugin};
///
/// /// A press that writes the key of each job beside the job.
/// struct Press(std::path::PathBuf);
///
/// #[async_trait]
/// impl Probe for Press {
///     async fn probe(&self, key: EffectKey) -> Result<Probed, plugin::Error> {
///         let job = self.0.join(key.to_string().replace('/', " "));
///         match job.try_exists() {
///             Ok(true) => Ok(Probed::Happened(Answer::new())),
///             Ok(false) => Ok(Probed::NotHappened),
///             Err(error) => Err(plugin::Error::transient(error.to_string())),
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait Probe: Send + Sync + 'static {
    /// Asks the callee whether the effect of `key` happened. Has no effect itself.
    ///
    /// # Errors
    /// If the callee cannot be asked. It is asked again.
    async fn probe(&self, key: EffectKey) -> Result<Probed, PluginError>;
}
