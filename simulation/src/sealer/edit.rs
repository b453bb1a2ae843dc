//! Random edits of intent. Each result is consistent in itself; the way of production from one to the next is left to
//! enforcement.

use super::group;
use crate::{
    faults::Fault,
    intent::{Plan, id},
    world::State,
    world::judge::Pinned,
};

/// Draws the kinds of edits that happen now and applies them to `state.plan`.
pub(super) fn edit(state: &mut State) {
    if let Some(bad) = state.plan.wishes.iter_mut().find(|wish| !wish.valid) {
        bad.valid = true;
    }
    type Edit = fn(&mut State);
    let edits: [(Fault, Edit); 12] = [
        (Fault::EditResizes, resize),
        (Fault::EditMovesEdge, move_edge),
        (Fault::EditVersions, versions),
        (Fault::EditRevises, revise),
        (Fault::EditAdds, add),
        (Fault::EditRemoves, remove),
        (Fault::EditTurnsDown, turn_down),
        (Fault::EditInvalid, invalidate),
        (Fault::EditPolicy, group::edit_policy),
        (Fault::EditGroup, group::edit_group),
        (Fault::EditMends, group::edit_mends),
        (Fault::EditBad, group::edit_bad),
    ];
    for (fault, edit) in edits {
        if state.strikes(fault) {
            edit(state);
        }
    }
    // Without renames no random number is drawn, so that such seeds do not change.
    if state.scenario.rates.of(Fault::EditRenames) > 0 && state.strikes(Fault::EditRenames) {
        rename(state);
    }
}

fn any(state: &mut State, of: impl Fn(&Plan, usize) -> bool) -> Option<usize> {
    let fits: Vec<usize> = (2..state.plan.wishes.len())
        .filter(|at| of(&state.plan, *at))
        .collect();
    state.random.pick(&fits)
}

/// Halves or doubles the capacity that one consumer uses, or all consumers of one provider.
fn resize(state: &mut State) {
    let Some(at) = any(state, |plan, at| plan.uses(at).is_some()) else {
        return;
    };
    let halve = state.random.per_mille(500);
    let parent = state.plan.wishes[at].parent;
    let all = state.random.per_mille(400);
    for (other, wish) in state.plan.wishes.iter_mut().enumerate() {
        if wish.exists && (other == at || (all && wish.parent == parent)) {
            wish.uses = if halve {
                (wish.uses / 2).max(1)
            } else {
                (wish.uses * 2).min(1000)
            };
        }
    }
    if state.random.per_mille(300) {
        state.plan.wishes[at].slack = state.random.below(4) as u64;
    }
}

fn move_edge(state: &mut State) {
    let fits = |plan: &Plan, at: usize| plan.wishes[at].parent.is_some() && plan.is_up(at);
    if let Some(at) = any(state, fits) {
        state.plan.wishes[at].edge ^= true;
    }
    let fits = |plan: &Plan, at: usize| plan.wishes[at].order.is_some() && plan.is_up(at);
    // Without edges of order no random number is drawn, so that such seeds do not change.
    if state.plan.wishes.iter().any(|wish| wish.order.is_some())
        && let Some(at) = any(state, fits)
    {
        state.plan.wishes[at].ordered ^= true;
    }
}

/// Changes versions; no asset's version is above that of the schema.
fn versions(state: &mut State) {
    let schema = state.plan.schema();
    let to = 1 + state.random.below(12) as u64;
    state.plan.wishes[schema].version = to;
    for at in 2..schema {
        let wish = &mut state.plan.wishes[at];
        // Orphans keep their version: they are not pushed.
        if wish.schema.is_some() && wish.exists {
            let low = state.random.below(to as usize + 1) as u64;
            wish.version = if state.random.per_mille(500) { to } else { low };
        }
    }
}

/// Changes revisions, on which no other asset depends.
fn revise(state: &mut State) {
    for _ in 0..1 + state.random.below(4) {
        if let Some(at) = any(state, |plan, at| plan.wishes[at].exists) {
            state.plan.wishes[at].rev += 1;
        }
    }
}

fn add(state: &mut State) {
    if let Some(at) = any(state, |plan, at| !plan.wishes[at].exists) {
        state.bring_back(at);
    }
}

/// Removes an asset that no other asset uses, because the rest must stay consistent.
fn remove(state: &mut State) {
    let fits =
        |plan: &Plan, at: usize| plan.wishes[at].exists && !plan.is_used(at) && at != plan.schema();
    if let Some(at) = any(state, fits) {
        if state.random.per_mille(300) {
            state.plan.wishes[at].rev += 1;
        }
        let wish = &mut state.plan.wishes[at];
        (wish.exists, wish.steady) = (false, false);
    }
}

fn turn_down(state: &mut State) {
    let fits = |plan: &Plan, at: usize| {
        let free = plan.is_up(at) && !plan.is_used(at) && at != plan.schema();
        free && !plan.wishes[at].pool
    };
    if let Some(at) = any(state, fits) {
        state.plan.wishes[at].turndown = true;
    }
}

/// Gives an asset another id. It is one that is sealed, that no rollout governs, and whose pin no operator has moved.
fn rename(state: &mut State) {
    let sealed = state.sealed.acknowledged.last().cloned();
    let pins = &state.judge.pins;
    let free = |at: usize| {
        let pinned = pins.get(&at).is_some_and(|pin| *pin != Pinned::Latest);
        !pinned && !state.judge.is_moving(at)
    };
    let fits = |at: &usize| {
        let wish = &state.plan.wishes[*at];
        let is_sealed = sealed
            .as_ref()
            .is_some_and(|sealed| sealed.asset(&id(*at)).is_some());
        let is_free = !wish.pool && !wish.renamed && free(*at);
        state.plan.is_up(*at) && is_free && is_sealed
    };
    let fits: Vec<usize> = (2..state.plan.wishes.len()).filter(fits).collect();
    if let Some(at) = state.random.pick(&fits) {
        state.plan.wishes[at].renamed = true;
        state.renaming.insert(at);
    }
}

fn invalidate(state: &mut State) {
    if let Some(at) = any(state, |plan, at| plan.is_up(at)) {
        state.plan.wishes[at].valid = false;
        state.plan.wishes[at].rev += 1;
    }
}
