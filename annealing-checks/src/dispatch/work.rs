//! The scope of a claim: the attempts that it is about, and which of them count together.

use std::{fmt, sync::Arc};

use plugin_sdk::{CheckName, DispatchRequest, Key};

type KeyOf = dyn Fn(&DispatchRequest) -> Option<String> + Send + Sync;

/// Decides which attempts count together: attempts of steps, or, with [`starts`](Self::starts), whole executions. The keys
/// of claims are made from it.
///
/// ```
/// use annealing_checks::dispatch::Work;
///
/// let press = Work::of_function("print-posters");
/// let executions_of_an_app = Work::per_label("app").starts();
/// let big_ones = Work::by(|request| (request.label("size") == Some("big")).then(|| "big".into()));
/// ```
#[derive(Clone)]
pub struct Work {
    key: Arc<KeyOf>,
    starts: bool,
}

impl Work {
    /// All work of the partition counts together.
    pub fn all() -> Self {
        Self::by(|_| Some("all".into()))
    }

    /// Work of one workflow counts together.
    pub fn per_workflow() -> Self {
        Self::by(|request| Some(request.execution.workflow.to_string()))
    }

    /// Work of executions with one value of the label `name` counts together. Work without the label is not counted.
    pub fn per_label(name: impl Into<String>) -> Self {
        let name = name.into();
        Self::by(move |request| request.label(&name).map(str::to_owned))
    }

    /// Calls of `function` count together, whatever their workflow. Other work is not counted.
    pub fn of_function(function: impl Into<String>) -> Self {
        let function = function.into();
        Self::by(move |request| {
            let called = request.function.as_deref() == Some(function.as_str());
            called.then(|| function.clone())
        })
    }

    /// Work for which `key` returns the same text counts together. Work for which it returns `None` is not counted.
    pub fn by(key: impl Fn(&DispatchRequest) -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            key: Arc::new(key),
            starts: false,
        }
    }

    /// Counts executions, from their start to their end, instead of attempts of steps.
    #[must_use]
    pub fn starts(self) -> Self {
        Self {
            starts: true,
            ..self
        }
    }

    /// The key under which the work of `request` counts. It begins with the rule's name, so that two rules never share a
    /// key. `None`: it is not counted.
    pub(super) fn key(&self, rule: &CheckName, request: &DispatchRequest) -> Option<Key> {
        if request.is_start() != self.starts {
            return None;
        }
        let part = (self.key)(request)?;
        Some(Key::from(format!("{rule}/{part}").as_str()))
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("starts", &self.starts)
            .finish_non_exhaustive()
    }
}
