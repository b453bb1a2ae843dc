//! Every guard is needed: without it a test of its rule fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{back, crash, pins, rig::PLANTED, select, settle};
use crate::kernel::Bug;

#[test]
fn without_a_guard_a_test_of_its_rule_fails() {
    let guards: [(Bug, fn()); 12] = [
        (
            Bug::UpdatedAtAnyPin,
            settle::r20_only_what_is_in_sync_at_the_pin_of_the_rollout_is_updated,
        ),
        (
            Bug::RollBackSettledOnly,
            back::r22_all_that_moved_goes_back_settled_or_not_last_first,
        ),
        (
            Bug::UnknownIsHealthy,
            settle::r21_unknown_holds_and_is_flagged,
        ),
        (Bug::OldVerdict, settle::r21_an_old_verdict_passes_no_gate),
        (
            Bug::RollBackAsIntent,
            back::r22_all_that_moved_goes_back_settled_or_not_last_first,
        ),
        (
            Bug::SelectTwice,
            select::r18_what_was_selected_is_not_selected_again,
        ),
        (
            Bug::NoQuarantine,
            back::r22_failed_content_stays_away_until_a_person_says_so,
        ),
        (
            Bug::BackFirstFirst,
            back::r22_all_that_moved_goes_back_settled_or_not_last_first,
        ),
        (
            Bug::AnyEditMends,
            pins::r17_an_unrelated_edit_does_not_supersede_what_failed,
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
            crash::a_crash_at_any_step_or_within_one_changes_nothing,
        ),
    ];
    for (bug, test) in guards {
        PLANTED.set(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(test)).is_err();
        PLANTED.set(None);
        assert!(found, "{bug:?} goes unnoticed");
    }
}
