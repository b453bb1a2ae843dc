//! Selects the first n targets: the part that canary and waves share.
//!
//! The first targets are those that were started first, followed by those that the inner selection offers, in the
//! order of their places. This needs no memory, and a target that is already updated counts.

use std::{borrow::Cow, time::Duration};

use plugin_sdk::{SelectRequest, Selection, Tally, Wait};

use super::gate::{Gate, gate_of};

/// One stage. It is over when the first `upto` targets have passed its gate.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) name: String,
    pub(super) upto: usize,
    pub(super) bake: Duration,
}

/// Finds the first stage that is not over and lets through the targets that it still lacks.
pub(super) fn first_of(
    stages: impl IntoIterator<Item = Stage>,
    request: &SelectRequest,
    beneath: Selection,
) -> Selection {
    let census = request.targets.census();
    let mut started = Cow::Borrowed(census.started());
    let mut over = 0;
    let mut tally = Tally::default();
    for stage in stages {
        let upto = stage.upto.min(request.targets.len());
        let there = upto.min(started.len());
        let lacks = upto - there;
        // If the gate is open for everything started so far, it is open for every part of that.
        if lacks == 0 && gate_of(census.all_started(), request, stage.bake) == Gate::Open {
            continue;
        }
        if (1..started.len() - over).contains(&there.saturating_sub(over)) {
            started.to_mut()[over..].select_nth_unstable(there - over - 1);
        }
        if there == started.len() {
            tally = census.all_started();
        } else {
            for (_, place) in started.get(over..there).unwrap_or_default() {
                tally.add(&request.targets[*place as usize]);
            }
        }
        over = over.max(there);
        let mut whole = tally;
        whole.add_waiting(lacks);
        if let Gate::Shut(wait) = gate_of(whole, request, stage.bake) {
            let places = started[..over].iter().map(|(_, place)| *place);
            return shut(request, &stage, lacks, beneath, wait, places.collect());
        }
    }
    beneath
}

fn shut(
    request: &SelectRequest,
    stage: &Stage,
    lacks: usize,
    mut beneath: Selection,
    wait: Wait,
    mut validate: Vec<u32>,
) -> Selection {
    // A target without signals cannot stand for the others: choose it only if there are not enough other targets.
    if beneath.now.len() > lacks {
        let target = |place: u32| request.targets.get(place as usize);
        let silent = |place: &u32| target(*place).is_some_and(|it| it.silent);
        beneath.now.sort_by_key(silent);
        beneath.now.truncate(lacks);
        beneath.now.sort_unstable();
    }
    validate.sort_unstable();
    beneath.validate = validate;
    let why = format!("{}: {}", stage.name, wait.why);
    beneath
        .waiting(why, wait.until)
        .at_stage(stage.name.clone())
}
