//! Every guard is needed: without it, a test of its rule fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{back, crash, health, people, pins, quarantine, select, settle};
use crate::kernel::{Bug, plant};

/// Guards, each with a test that notices when it is left out.
const GUARDS: &[(Bug, fn())] = &[
    (
        Bug::UpdatedAtAnyPin,
        settle::r20_only_a_target_in_sync_at_the_rollouts_pin_is_updated,
    ),
    (
        Bug::RollBackSettledOnly,
        back::r22_every_moved_target_goes_back_settled_or_not_last_first,
    ),
    (
        Bug::UnknownIsHealthy,
        health::r21_unknown_health_holds_and_is_flagged,
    ),
    (Bug::OldVerdict, health::r21_an_old_verdict_passes_no_gate),
    (
        Bug::RollBackAsIntent,
        back::r22_every_moved_target_goes_back_settled_or_not_last_first,
    ),
    (
        Bug::SelectTwice,
        select::r18_selected_target_is_not_selected_again,
    ),
    (
        Bug::NoQuarantine,
        quarantine::r22_failed_content_is_quarantined_until_an_operator_retries,
    ),
    (
        Bug::AnyEditReleases,
        quarantine::r22_fix_of_a_part_of_the_failed_content_releases_nothing,
    ),
    (
        Bug::BackFirstFirst,
        back::r22_every_moved_target_goes_back_settled_or_not_last_first,
    ),
    (
        Bug::AnyEditMends,
        pins::r17_unrelated_edit_does_not_supersede_a_failed_rollout,
    ),
    (
        Bug::IgnoreLine,
        people::stopped_line_lets_no_target_move_before_its_time,
    ),
    (
        Bug::VoidSelection,
        select::r18_a_selection_by_an_older_policy_is_void,
    ),
    (
        Bug::NotClosed,
        select::r19_both_ends_of_a_changing_capacity_move_together,
    ),
    (
        Bug::TrustRows,
        crash::crash_at_or_within_any_step_does_not_change_the_result,
    ),
    (
        Bug::WallClockBase,
        health::r21_restart_under_a_fast_clock_does_not_shorten_a_bake,
    ),
];

#[test]
fn without_a_guard_a_test_of_its_rule_fails() {
    for (bug, test) in GUARDS.iter().copied() {
        plant(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(test)).is_err();
        plant(None);
        assert!(found, "{bug:?} goes unnoticed");
    }
}
