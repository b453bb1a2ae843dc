//! The watches in intent, as data, and what the judge knows of their runs.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::operation::ExecutionId;
use prodspec_model::{
    AssetId,
    operation::{Operation, PipelineStep, Power},
};

use super::source::{Content, Contents, FIELDS, SOURCE};
use crate::executor::Instant;

/// The function that runs of watches call. Its work takes time.
pub(crate) const NOTE: &str = "note";
/// The function that edits the asset that a run of a watch is about.
pub(crate) const ROUND: &str = "round";

/// A watch in intent. The first three are on the fields of the editable source, as assets; the last one is on the state of
/// assets in production.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watch {
    /// One run at a time for each asset. Its runs edit the assets that they are about.
    Forbid,
    /// Runs beside each other.
    Allow,
    /// A newer change cancels the run for the older one.
    Replace,
    /// A run for each asset that is in sync for some time.
    InSync,
}

impl Watch {
    pub(crate) const ALL: [Self; 4] = [Self::Forbid, Self::Allow, Self::Replace, Self::InSync];
    /// The watches on intent.
    pub(crate) const ON_INTENT: [Self; 3] = [Self::Forbid, Self::Allow, Self::Replace];

    fn name(self) -> &'static str {
        match self {
            Self::Forbid => "forbid",
            Self::Allow => "allow",
            Self::Replace => "replace",
            Self::InSync => "in-sync",
        }
    }

    /// The id of its asset.
    #[allow(clippy::expect_used, reason = "the constants form valid ids")]
    pub(crate) fn id(self) -> AssetId {
        AssetId::new(&format!("watch/{}", self.name())).expect("the constant is a valid id")
    }

    /// The name of the workflow of its runs.
    pub(crate) fn workflow(self) -> String {
        format!("watch.{}", self.name())
    }

    /// The watch whose asset has this id.
    pub(crate) fn of(id: &AssetId) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.id() == *id)
    }

    /// The watch of whose runs an execution is one.
    pub(crate) fn of_run(execution: &ExecutionId) -> Option<Self> {
        let name = execution.workflow.as_str();
        Self::ALL.into_iter().find(|it| it.workflow() == name)
    }

    /// What each run performs.
    pub(crate) fn operation(self) -> Operation {
        let note = PipelineStep::new("run", NOTE);
        match self {
            Self::Forbid => Operation::pipeline([note, PipelineStep::new("round", ROUND)])
                .may([Power::edit(SOURCE, "sizes.*")]),
            _ => Operation::pipeline([note]),
        }
    }

    /// Maximum number of live runs.
    pub(crate) fn at_most(self) -> u32 {
        match self {
            Self::Forbid | Self::Replace => 2,
            Self::Allow => 3,
            Self::InSync => 8,
        }
    }
}

/// What the judge knows of watches.
#[derive(Default)]
pub(crate) struct Watched {
    /// The values of all fields by incarnation, as each may have been sealed; one if its seal was acknowledged.
    pub(crate) sealed: BTreeMap<u32, Vec<Contents>>,
    /// Watches of which a record was stored.
    pub(crate) taken: BTreeMap<Watch, Instant>,
    /// The number of the next run of each watch that was not seen. A run whose start was not acknowledged is seen late.
    pub(crate) next: BTreeMap<Watch, u64>,
    /// When the start of each run was submitted last.
    pub(crate) submitted: BTreeMap<ExecutionId, Instant>,
    /// Runs that were seen.
    pub(crate) runs: BTreeSet<ExecutionId>,
    /// The live runs of each watch.
    pub(crate) live: BTreeMap<Watch, BTreeMap<ExecutionId, AssetId>>,
    /// The contents, one of which a watch has handled last, by field.
    pub(crate) handled: BTreeMap<(Watch, usize), BTreeSet<Content>>,
    /// What runs of a watch have made of which content, by field.
    pub(crate) own: BTreeMap<(Watch, usize), BTreeSet<(Content, Content)>>,
    /// When each field was set last.
    pub(crate) set: [Instant; FIELDS.len()],
    /// When each asset may have left its state in production, or its pin may have moved, last, by number.
    pub(crate) stirred: BTreeMap<usize, Instant>,
    /// When a push of each asset took effect last, by number.
    pub(crate) pushed: BTreeMap<usize, Instant>,
    /// When the last run for the state of each asset began, by number.
    pub(crate) fired: BTreeMap<usize, Instant>,
}

impl Watched {
    /// The contents that a field may have in an incarnation.
    pub(crate) fn at(&self, field: usize, no: u32) -> BTreeSet<Content> {
        let sealed = self.sealed.get(&no).into_iter().flatten();
        sealed.map(|contents| contents[field]).collect()
    }

    /// The contents that a field may have had in incarnations after this one.
    pub(crate) fn after(&self, field: usize, no: u32) -> BTreeSet<Content> {
        let later = self.sealed.range(no + 1..).flat_map(|(_, sealed)| sealed);
        later.map(|contents| contents[field]).collect()
    }

    /// Adds to contents of a field those that runs of a watch have made of them.
    pub(crate) fn with_own(
        &self,
        watch: Watch,
        field: usize,
        mut contents: BTreeSet<Content>,
    ) -> BTreeSet<Content> {
        let own = self.own.get(&(watch, field));
        loop {
            let edits = own.into_iter().flatten();
            let more = edits.filter(|(from, to)| contents.contains(from) && !contents.contains(to));
            let more: Vec<Content> = more.map(|(_, to)| *to).collect();
            if more.is_empty() {
                return contents;
            }
            contents.extend(more);
        }
    }
}
