//! Trains: versions that go from stage to stage, several of them at once.

use jiff::{Timestamp, civil::Weekday, tz::TimeZone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{filter::Filter, id::AssetId, message::Message, reference::AssetRef};

/// A train: each version that is offered to it goes through its stages, and several versions are under way at once. A stage
/// that is free takes the newest version that the stage before has found good.
///
/// In each stage a version is rolled out by edits of one field. Or the train carries [heads](Self::of_heads): its stages are
/// policy groups that are updated by pins, and each incarnation that changes one of their assets is a version.
///
/// A train is the payload of a modelled-only asset, and is edited like any other asset. An edit takes hold at the next
/// version that enters a stage. If the asset is removed or turned down, nothing enters a stage any more, and nothing
/// is taken back; the groups of a train of heads go on with the newest incarnation then, at the pace of their policies.
///
/// ```
/// use prodspec_model::{AssetId, Filter, train::{Stage, Train}};
///
/// let (fast, slow) = (AssetId::new("policy/fast")?, AssetId::new("policy/slow")?);
/// let jobs = || Filter::types(["shakespeare.v1.FrontendJob"]);
/// let train = Train::new("version")
///     .offers(8)
///     .stage(Stage::new("canary", jobs().under("job/eu"), fast).first(1))
///     .stage(Stage::new("eu", jobs().under("job/eu"), slow.clone()))
///     .stage(Stage::new("us", jobs().under("job/us"), slow).weekdays_in("America/New_York"));
/// # assert_eq!(train.stages.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename = "prodspec.v1.Train")]
#[schemars(deny_unknown_fields)]
pub struct Train {
    /// The field that carries the version, relative to the entry of a source that each target is made from. `head`: each
    /// incarnation is a version, and the groups of the stages' policies are its assets.
    pub carries: String,
    /// The version that is offered by intent: each new value is one more version of the train. `None`: versions are offered
    /// by commands only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offers: Option<Value>,
    /// The stages, in the order in which a version goes through them.
    pub stages: Vec<Stage>,
}

/// A stage of a train: some assets, and the policy with which a version is rolled out to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.TrainStage")]
#[schemars(deny_unknown_fields)]
pub struct Stage {
    /// The name of the stage: 1 to 60 letters, digits, hyphens and underscores.
    pub name: String,
    /// The assets of the stage. An asset belongs to the first stage that names it. In a train of heads, it is left out: the
    /// assets are those of the group of the policy.
    #[serde(default, skip_serializing_if = "Filter::is_all")]
    pub targets: Filter,
    /// The stage is for this number of assets only, the first ones by their ids. An asset that was chosen stays chosen until
    /// it leaves. `None`: for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
    /// The rollout policy that says how slowly the assets of the stage are updated, and how long they bake. A version is ripe
    /// when its rollout is completed.
    pub policy: AssetRef,
    /// A version enters the stage on Monday to Friday only, in this IANA time zone. A rollout under way goes on. `None`: on any
    /// day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weekdays_in: Option<String>,
}

impl Message for Train {
    const TYPE: &'static str = "prodspec.v1.Train";
}

impl Train {
    /// A train without stages, whose versions are values of the field `carries`.
    pub fn new(carries: impl Into<String>) -> Self {
        Self {
            carries: carries.into(),
            ..Self::default()
        }
    }

    /// A train without stages, whose versions are incarnations. A stage of it is [the group of a policy](Stage::group).
    ///
    /// ```
    /// use prodspec_model::{AssetId, train::{Stage, Train}};
    ///
    /// let (canary, rest) = (AssetId::new("policy/canary")?, AssetId::new("policy/rest")?);
    /// let train = Train::of_heads()
    ///     .stage(Stage::group("canary", canary))
    ///     .stage(Stage::group("rest", rest).weekdays_in("Europe/Zurich"));
    /// # assert!(train.carries_heads());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_heads() -> Self {
        Self::new("head")
    }

    /// Whether its versions are incarnations.
    pub fn carries_heads(&self) -> bool {
        self.carries == "head"
    }

    /// Offers a version by intent.
    #[must_use]
    pub fn offers(mut self, version: impl Into<Value>) -> Self {
        self.offers = Some(version.into());
        self
    }

    /// Adds a stage after the others.
    #[must_use]
    pub fn stage(mut self, stage: Stage) -> Self {
        self.stages.push(stage);
        self
    }
}

impl Stage {
    /// A stage for all assets that match `targets`, at the pace of the policy asset `policy`.
    pub fn new(name: impl Into<String>, targets: Filter, policy: AssetId) -> Self {
        Self {
            name: name.into(),
            targets,
            first: None,
            policy: AssetRef::to(policy),
            weekdays_in: None,
        }
    }

    /// A stage of a train of heads, for the assets that name the policy asset `policy`.
    pub fn group(name: impl Into<String>, policy: AssetId) -> Self {
        Self::new(name, Filter::default(), policy)
    }

    /// Limits the stage to the first `count` assets.
    #[must_use]
    pub fn first(mut self, count: u32) -> Self {
        self.first = Some(count);
        self
    }

    /// Lets versions enter on Monday to Friday only, in this IANA time zone.
    #[must_use]
    pub fn weekdays_in(mut self, zone: impl Into<String>) -> Self {
        self.weekdays_in = Some(zone.into());
        self
    }

    /// The next time at which a version may enter: `now` if it may now.
    ///
    /// # Errors
    /// When the time zone is not known, or the time is at the end of all timestamps.
    pub fn opens(&self, now: Timestamp) -> Result<Timestamp, jiff::Error> {
        let Some(zone) = &self.weekdays_in else {
            return Ok(now);
        };
        let there = now.to_zoned(TimeZone::get(zone)?);
        match there.weekday() {
            Weekday::Saturday | Weekday::Sunday => {
                let monday = there.date().nth_weekday(1, Weekday::Monday)?;
                Ok(monday.to_zoned(there.time_zone().clone())?.timestamp())
            }
            _ => Ok(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r104_weekday_stage_opens_on_monday_in_its_zone() {
        let stage = |zone: &str| {
            let policy = AssetId::new("policy/slow").unwrap();
            Stage::new("us", Filter::default(), policy).weekdays_in(zone)
        };
        let opens = |zone: &str, now: &str| {
            let opens = stage(zone).opens(now.parse().unwrap());
            opens.map(|at| at.to_string()).ok()
        };
        // Friday night in New York is Saturday in London.
        let friday_night = "2026-11-28T03:00:00Z";
        assert_eq!(
            opens("America/New_York", friday_night).as_deref(),
            Some(friday_night)
        );
        assert_eq!(
            opens("Europe/London", friday_night).as_deref(),
            Some("2026-11-30T00:00:00Z")
        );
        assert_eq!(
            opens("Europe/Zurich", "2026-11-29T12:00:00Z").as_deref(),
            Some("2026-11-29T23:00:00Z")
        );
        assert_eq!(opens("Mars/Olympus", friday_night), None);
    }
}
