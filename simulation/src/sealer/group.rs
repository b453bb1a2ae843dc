//! Random edits of policy groups: of their policies, their assets and the assets' content.

use prodspec_model::rollout::{Emergency, RolloutPolicy};

use crate::{
    intent::{Wish, draw_policy},
    world::State,
};

/// Gives a group another policy, or adds a hold or an emergency to its policy.
pub(super) fn edit_policy(state: &mut State) {
    let group = state.random.below(state.plan.groups.len());
    let random = &mut state.random;
    let Some(group) = state.plan.groups.get_mut(group) else {
        return;
    };
    let policy = match random.below(4) {
        0 | 1 => draw_policy(random),
        2 => RolloutPolicy {
            hold: Some("not now".into()),
            ..group.policy.clone()
        },
        _ => RolloutPolicy {
            emergency: Some(Emergency {
                who: "an operator".into(),
                why: "it cannot wait".into(),
            }),
            ..group.policy.clone()
        },
    };
    group.policy = policy;
}

/// Moves an asset into a group, out of it, or into another group.
pub(super) fn edit_group(state: &mut State) {
    let groups = state.plan.groups.len();
    let Some(at) = pick(state, |wish| wish.loose) else {
        return;
    };
    let to = state.random.below(groups + 1);
    let to = (to < groups && state.plan.groups[to].loose).then_some(to);
    let wish = &mut state.plan.wishes[at];
    wish.steady &= wish.group == to;
    wish.group = to;
}

/// Gives an asset of a group bad content.
pub(super) fn edit_bad(state: &mut State) {
    if let Some(at) = pick(state, |wish| wish.exists && wish.group.is_some()) {
        state.plan.spoil(at, &mut state.random);
    }
}

/// Repairs all bad content in intent.
pub(super) fn edit_mends(state: &mut State) {
    for wish in &mut state.plan.wishes {
        wish.mend();
    }
}

fn pick(state: &mut State, of: impl Fn(&Wish) -> bool) -> Option<usize> {
    let fits: Vec<usize> = (2..state.plan.wishes.len())
        .filter(|at| of(&state.plan.wishes[*at]))
        .collect();
    state.random.pick(&fits)
}
