//! Checks the parts of a policy that are invalid whatever assets it governs. The stall check, in contrast, needs the
//! assets.

use plugin_sdk::{AssetView, Problems};
use prodspec_model::rollout::{Emergency, RolloutPolicy};

/// Maximum bake, in seconds: 366 days. For a longer wait, use a hold.
const LONGEST_BAKE: u64 = 366 * 24 * 3600;

/// Checks that a policy is valid by itself: a hold or an emergency has a reason in words, and no bake is longer than
/// a year. [`NoStall`](super::NoStall) checks the numbers of the policy together with the assets that it governs.
///
/// ```
/// use plugin_sdk::AssetType;
/// use prodspec_model::rollout::RolloutPolicy;
///
/// let policies = AssetType::<RolloutPolicy>::new().modelled_only().valid(annealing_strategist::policy::valid);
/// # let _ = policies;
/// ```
pub fn valid(policy: &RolloutPolicy, view: &AssetView<'_>, problems: &mut Problems) {
    for (field, message) in wrong(policy) {
        let field = format!("payload.{field}");
        problems.push(view.problem(message).field(field));
    }
}

/// Returns each invalid field with a message.
fn wrong(policy: &RolloutPolicy) -> Vec<(String, String)> {
    let (hold, emergency) = (&policy.hold, &policy.emergency);
    let said = hold.iter().map(|why| ("hold", why));
    let said = said.chain(
        emergency
            .iter()
            .flat_map(|Emergency { who, why }| [("emergency.who", who), ("emergency.why", why)]),
    );
    let mute = said.filter(|(_, text)| text.trim().is_empty());
    let mute = mute.map(|(field, _)| {
        (
            field.into(),
            "must not be blank; fill it in, or leave it out".into(),
        )
    });
    mute.chain(bakes(policy).filter_map(too_long)).collect()
}

fn bakes(policy: &RolloutPolicy) -> impl Iterator<Item = (String, u64)> {
    let canary = policy.canary.iter();
    let canary = canary.map(|canary| ("canary.bake_secs".to_owned(), canary.bake_secs));
    let waves = policy.waves.iter().enumerate();
    let waves = waves.map(|(at, wave)| (format!("waves[{at}].bake_secs"), wave.bake_secs));
    let whole = ("bake_secs".to_owned(), policy.bake_secs);
    [whole].into_iter().chain(canary).chain(waves)
}

fn too_long((field, bake): (String, u64)) -> Option<(String, String)> {
    let message = || {
        format!("{bake} seconds is too long; bake at most {LONGEST_BAKE} seconds, or use `hold`")
    };
    (bake > LONGEST_BAKE).then(|| (field, message()))
}

#[cfg(test)]
mod tests {
    use prodspec_model::rollout::{Amount, Canary, Wave};

    use super::*;

    #[test]
    fn each_invalid_field_is_named() {
        let bake_secs = LONGEST_BAKE + 1;
        let upto = Amount::Count(1);
        let policy = RolloutPolicy {
            hold: Some(" ".into()),
            emergency: Some(Emergency {
                who: String::new(),
                why: "CVE".into(),
            }),
            bake_secs,
            canary: Some(Canary {
                count: 1,
                bake_secs,
            }),
            waves: vec![Wave { upto, bake_secs: 0 }, Wave { upto, bake_secs }],
            ..RolloutPolicy::default()
        };
        let fields: Vec<String> = wrong(&policy).into_iter().map(|it| it.0).collect();
        let expected = [
            "hold",
            "emergency.who",
            "bake_secs",
            "canary.bake_secs",
            "waves[1].bake_secs",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn hold_with_a_reason_and_bake_within_a_year_are_valid() {
        let policy = RolloutPolicy {
            hold: Some("a launch".into()),
            bake_secs: LONGEST_BAKE,
            ..RolloutPolicy::default()
        };
        assert_eq!(wrong(&policy), []);
    }
}
