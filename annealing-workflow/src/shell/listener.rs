//! Listeners: they hear the feed of a partition, and start workflows.

use std::sync::Arc;

use plugin_sdk::operation::Start;

use crate::record::{Ended, Told};

type Hears = dyn Fn(&Told, Option<&Ended>) -> Option<Start> + Send + Sync;

/// Hears what executions do, and schedules and watches, and starts workflows: it sends a notice, or does what follows from an end.
///
/// Each entry of the feed is heard at least once, in order, over crashes and changes of owner, and what it starts is started
/// once: without a key of its own, the start has one of the listener and the place in the feed. A listener that is new hears
/// what happens from then on. Executions and entries of the feed are kept until all registered listeners have heard them.
/// What it starts is heard too; a chain of more than eight starts is refused.
///
/// ```
/// use annealing_workflow::{Listener, definition::Outcome};
/// use plugin_sdk::operation::Start;
///
/// let notices = Listener::on_end("notices", |ended| {
///     let failed = ended.outcome == Outcome::Failed && ended.id.workflow.as_str() != "notice";
///     let text = format!("{} failed: {:?}", ended.id, ended.errors);
///     failed.then(|| Start::of("notice").input(text))
/// });
/// # let _ = notices;
/// ```
#[derive(Clone)]
pub struct Listener {
    pub(super) name: Arc<str>,
    hears: Arc<Hears>,
}

impl Listener {
    /// Makes a listener that starts what `hears` returns for an entry of the feed. The function is called again for the same
    /// entry after a crash. It must not block; an entry at which it panics is left out.
    pub fn new(
        name: impl Into<Arc<str>>,
        hears: impl Fn(&Told) -> Option<Start> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            hears: Arc::new(move |told, _| hears(told)),
        }
    }

    /// Makes a listener that starts what `hears` returns for an execution that has ended. Retention waits for each registered
    /// listener, however long it takes. An end that is void because the execution was restarted before the listener came to it
    /// is left out, with a warning.
    pub fn on_end(
        name: impl Into<Arc<str>>,
        hears: impl Fn(&Ended) -> Option<Start> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            hears: Arc::new(move |_, ended| ended.and_then(&hears)),
        }
    }

    pub(super) fn hears(&self, told: &Told, ended: Option<&Ended>) -> Option<Start> {
        (self.hears)(told, ended)
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
