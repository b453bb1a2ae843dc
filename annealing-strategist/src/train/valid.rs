//! Checks the parts of a train that are invalid whatever assets it is for.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use plugin_sdk::{AssetView, FieldPath, Problems};
use prodspec_model::{
    AssetId,
    rollout::{RolloutPolicy, Update},
    train::{Stage, Train},
};

/// Maximum number of stages.
const STAGES: usize = 50;
/// Maximum length of the name of a stage, in bytes.
const NAME: usize = 60;

/// Checks that a train is valid by itself: it carries a field, and has stages with names of their own, at least one asset and
/// a known time zone.
pub fn valid(train: &Train, view: &AssetView<'_>, problems: &mut Problems) {
    // The key of a change: `rollout/<train>/<stage>`.
    let most = AssetId::MAX_LEN.saturating_sub(view.asset().id_str().len() + "rollout//".len());
    for (field, message) in wrong(train, most.min(NAME)) {
        problems.push(view.problem(message).field(format!("payload.{field}")));
    }
    for (at, stage) in train.stages.iter().enumerate() {
        let policy = view.get(&stage.policy.id);
        let policy = policy.and_then(|it| it.payload::<RolloutPolicy>().ok());
        if train.carries_heads() && policy.is_some_and(|it| it.update == Update::Edits) {
            let message = "is of a group that is updated by edits; let the train carry a field, or update by pins";
            let field = format!("payload.stages[{at}].policy");
            problems.push(view.problem(message).field(field));
        }
    }
}

/// Returns each invalid field with a message. `most` is the maximum length of the name of a stage.
fn wrong(train: &Train, most: usize) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let mut says = |field: String, message: String| wrong.push((field, message));
    if train.carries.is_empty() || train.carries.parse::<FieldPath>().is_err() {
        let message = "must be a field of the targets' entries, such as `version`";
        says("carries".into(), message.into());
    }
    if train.carries_heads() && train.offers.is_some() {
        let message =
            "must be left out: each incarnation that changes an asset of a stage is offered";
        says("offers".into(), message.into());
    }
    if train.stages.is_empty() || train.stages.len() > STAGES {
        says("stages".into(), format!("must be 1 to {STAGES} stages"));
    }
    let mut names = BTreeSet::new();
    for (at, stage) in train.stages.iter().enumerate() {
        if let Some(message) = wrong_name(&stage.name, most) {
            says(format!("stages[{at}].name"), message);
        } else if !names.insert(&stage.name) {
            says(
                format!("stages[{at}].name"),
                "is the name of two stages".into(),
            );
        }
        if stage.first == Some(0) {
            says(
                format!("stages[{at}].first"),
                "must be at least 1, or left out".into(),
            );
        }
        if let Some(message) = wrong_zone(stage) {
            says(format!("stages[{at}].weekdays_in"), message);
        }
        for (field, message) in wrong_assets(train, at) {
            says(format!("stages[{at}].{field}"), message.into());
        }
    }
    wrong
}

/// Checks that a stage says which assets it is for.
fn wrong_assets(train: &Train, at: usize) -> Vec<(&'static str, &'static str)> {
    let (stage, mut wrong) = (&train.stages[at], Vec::new());
    if !train.carries_heads() {
        if stage.targets.is_all() {
            wrong.push((
                "targets",
                "must be at least one condition, such as `{under: job/eu}`",
            ));
        }
        return wrong;
    }
    let group = "must be left out: the assets are those that name the policy of the stage";
    if !stage.targets.is_all() {
        wrong.push(("targets", group));
    }
    if stage.first.is_some_and(|first| first > 0) {
        wrong.push(("first", group));
    }
    let mut before = train.stages[..at].iter();
    if before.any(|it| it.policy == stage.policy) {
        wrong.push((
            "policy",
            "is the policy of two stages; each needs its own group",
        ));
    }
    wrong
}

fn wrong_name(stage: &str, most: usize) -> Option<String> {
    let is_known = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    let starts = stage.starts_with(|it: char| it.is_ascii_alphanumeric());
    let fits = starts && stage.len() <= most && stage.chars().all(is_known);
    (!fits).then(|| {
        format!("must be 1 to {most} letters, digits, hyphens and underscores, and begin with a letter or digit")
    })
}

fn wrong_zone(stage: &Stage) -> Option<String> {
    let zone = stage.weekdays_in.as_ref()?;
    let error = TimeZone::get(zone).err()?;
    Some(format!("is not a known time zone: {error}"))
}

#[cfg(test)]
mod tests {
    use prodspec_model::{AssetId, Filter};

    use super::*;

    #[test]
    fn r104_each_invalid_field_of_a_train_is_named() {
        let policy = || AssetId::new("policy/slow").unwrap();
        let stage = |name: &str| Stage::new(name, Filter::default().under("job/"), policy());
        let good = Train::new("version").stage(stage("eu")).stage(stage("us"));
        assert_eq!(wrong(&good, 60), []);
        let bad = Train::new("a..b")
            .stage(stage("eu"))
            .stage(stage("eu").first(0))
            .stage(stage("a.b").weekdays_in("Mars/Olympus"));
        let fields: Vec<String> = wrong(&bad, 60).into_iter().map(|it| it.0).collect();
        let expected = [
            "carries",
            "stages[1].name",
            "stages[1].first",
            "stages[2].name",
            "stages[2].weekdays_in",
        ];
        assert_eq!(fields, expected);
        assert_eq!(wrong(&good, 1)[0].0, "stages[0].name");
        let all = Train::new("version").stage(Stage::group("eu", policy()));
        assert_eq!(wrong(&all, 60)[0].0, "stages[0].targets");
        assert_eq!(wrong(&Train::new("version"), 60)[0].0, "stages");
    }

    #[test]
    fn r104_each_invalid_field_of_a_train_of_heads_is_named() {
        let policy = |name: &str| AssetId::new(name).unwrap();
        let good = Train::of_heads()
            .stage(Stage::group("eu", policy("policy/eu")))
            .stage(Stage::group("us", policy("policy/us")));
        assert_eq!(wrong(&good, 60), []);
        let some = Filter::default().under("job/");
        let bad = Train::of_heads()
            .offers(7)
            .stage(Stage::group("eu", policy("policy/eu")).first(1))
            .stage(Stage::new("us", some, policy("policy/eu")));
        let fields: Vec<String> = wrong(&bad, 60).into_iter().map(|it| it.0).collect();
        let expected = [
            "offers",
            "stages[0].first",
            "stages[1].targets",
            "stages[1].policy",
        ];
        assert_eq!(fields, expected);
    }
}
