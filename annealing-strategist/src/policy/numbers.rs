//! Finds invalid numbers in a policy.

use prodspec_model::rollout::{Amount, RolloutPolicy};

/// Returns the invalid numbers of a policy for `all` targets, each with its field and a message.
pub(super) fn impossible(policy: &RolloutPolicy, all: usize) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let mut refuse = |field: &str, message: &str| wrong.push((field.into(), message.into()));
    let least = "must be at least 1, or nothing would ever be selected; leave it out for no limit";
    if policy.max_in_flight == Some(0) {
        refuse("max_in_flight", least);
    }
    if policy.max_unavailable == Some(0) {
        refuse("max_unavailable", least);
    }
    if policy
        .canary
        .as_ref()
        .is_some_and(|canary| canary.count == 0)
    {
        refuse(
            "canary.count",
            "must be at least 1; leave the canary out for none",
        );
    }
    for (at, domain) in policy.domains.iter().enumerate() {
        if policy.domains[..at].contains(domain) {
            refuse(
                &format!("domains[{at}]"),
                &format!("`{domain}` is listed twice"),
            );
        }
    }
    for (at, wave) in policy.waves.iter().enumerate() {
        let field = format!("waves[{at}].upto");
        let before = at.checked_sub(1).map(|before| policy.waves[before].upto);
        match wave.upto {
            Amount::Percent(0) | Amount::Count(0) => refuse(&field, "must be at least 1"),
            Amount::Percent(101..) => refuse(&field, "must be at most 100 percent"),
            upto if before.is_some_and(|before| !rises(before, upto, all)) => {
                refuse(&field, "must be larger than the previous wave");
            }
            _ => {}
        }
    }
    wrong
}

/// Whether `next` is more than `before`. A count and a percentage are compared as numbers of targets and may be
/// equal.
fn rises(before: Amount, next: Amount, all: usize) -> bool {
    match (before, next) {
        (Amount::Count(before), Amount::Count(next)) => before < next,
        (Amount::Percent(before), Amount::Percent(next)) => before < next,
        _ => before.of(all) <= next.of(all),
    }
}
