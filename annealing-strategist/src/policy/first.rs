//! Selects the first n targets: the part that canary and waves share.
//!
//! The first targets are those that were started first, followed by those that the inner selection offers, in the
//! order of their places. This needs no memory, and a target that is already updated counts. Targets that came late are in
//! no stage: they may start once the first stage is over.

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
    mut beneath: Selection,
) -> Selection {
    let census = request.targets.census();
    let mut started = Cow::Borrowed(census.started());
    if census.first().late > 0 {
        started
            .to_mut()
            .retain(|(_, place)| !is_late(request, *place));
    }
    let mut all_started = census.first();
    all_started.targets = started.len();
    let (mut over, mut upto) = (0, 0);
    let mut tally = Tally::default();
    for (no, stage) in stages.into_iter().enumerate() {
        // A stage is never smaller than the one before: its bake covers the same targets.
        upto = upto.max(stage.upto.min(census.first().targets));
        let there = upto.min(started.len());
        let lacks = upto - there;
        // If the gate is open for everything started so far, it is open for every part of that.
        if lacks == 0 && gate_of(all_started, request, stage.bake) == Gate::Open {
            continue;
        }
        if (1..started.len() - over).contains(&there.saturating_sub(over)) {
            started.to_mut()[over..].select_nth_unstable(there - over - 1);
        }
        if there == started.len() {
            tally = all_started;
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
            let has_late = census.first().late > 0;
            let late = beneath
                .now
                .extract_if(.., |place| has_late && is_late(request, *place));
            let late: Vec<u32> = late.filter(|_| no > 0).collect();
            let mut selection = shut(request, &stage, lacks, beneath, wait, places.collect());
            selection.now.extend(late);
            selection.now.sort_unstable();
            return selection;
        }
    }
    beneath
}

fn is_late(request: &SelectRequest, place: u32) -> bool {
    let target = request.targets.get(place as usize);
    target.is_some_and(|target| target.late)
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
    }
    validate.sort_unstable();
    beneath.validate = validate;
    let why = format!("{}: {}", stage.name, wait.why);
    beneath
        .waiting(why, wait.until)
        .at_stage(stage.name.clone())
}
