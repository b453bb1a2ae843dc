//! Every guard is needed: without it a test of its rule fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{admission, claims, delays, loops, moved, pins, pushes, reports, rig::PLANTED};
use crate::kernel::Bug;

#[test]
fn without_a_guard_a_test_of_its_rule_fails() {
    let guards: [(Bug, fn()); 13] = [
        (Bug::SkipClaim, claims::r9_claims_are_taken_all_or_nothing),
        (
            Bug::ReuseOldDiff,
            admission::r8_changed_evidence_voids_the_verdict,
        ),
        (Bug::DropFence, loops::s5_without_a_lease_nothing_starts),
        (
            Bug::LoseOpenPush,
            pushes::r13_new_owner_diffs_an_open_push_before_anything_else,
        ),
        (
            Bug::PushOnTimedOutCheck,
            delays::r7_a_failed_check_is_a_delay,
        ),
        (Bug::RemoveOrphan, pushes::r15_absent_means_orphaned),
        (
            Bug::PushBeforeDurable,
            pushes::r13_a_push_is_durable_before_it_starts,
        ),
        (
            Bug::IgnoreMovedPin,
            admission::r8_a_moved_pin_voids_the_diff,
        ),
        (
            Bug::SkipHold,
            admission::r8_a_push_in_flight_holds_what_it_relies_on,
        ),
        (
            Bug::FollowLatest,
            pins::r17_governed_asset_never_follows_the_newest_incarnation,
        ),
        (
            Bug::SettledBeforePin,
            reports::r20_only_a_diff_started_after_the_move_makes_the_asset_in_sync,
        ),
        (
            Bug::ForgetMovedDemand,
            moved::r49_demand_of_a_renamed_asset_counts_until_it_is_in_sync,
        ),
        (
            Bug::LeaveMovedRecord,
            moved::r49_renamed_asset_takes_over_and_leaves_nothing_behind,
        ),
    ];
    for (bug, test) in guards {
        PLANTED.set(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(test)).is_err();
        PLANTED.set(None);
        assert!(found, "no test fails with {bug:?}");
    }
}
