//! Requirements: the assets that a function asks for, and the answers to it.

use jiff::Timestamp;
use prodspec_model::{Asset, AssetId, Filter, Message};
use serde::{Deserialize, Serialize};

use super::{Limit, OverLimit};
use crate::{SyncState, diff::Observed, reader::IncarnationReader};

/// The assets that a function asks for: the content of the request's incarnation and, if it says so, their state in
/// production. A requirement that matches too much ([`Limit::REQUIRED`], [`Limit::REQUIRED_SIZE`]) fails; it is never cut.
///
/// ```
/// use plugin_sdk::{operation::Requirement, testing};
///
/// let clusters = Requirement::all::<testing::Thing>().under("cluster/").with_status();
/// let reader = testing::reader([testing::asset("cluster/eu"), testing::asset("job/eu")]);
/// assert_eq!(clusters.find(&reader)?[0].id_str(), "cluster/eu");
/// # Ok::<(), plugin_sdk::operation::OverLimit>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Requirement {
    /// The conditions that a required asset has to meet.
    pub of: Filter,
    /// Whether the state of the assets in production is asked for, too.
    pub status: bool,
    /// Whether the assets are compared with production for it.
    pub observed: bool,
}

impl Requirement {
    /// Asks for the assets that match `filter`.
    pub fn of(filter: Filter) -> Self {
        Self {
            of: filter,
            status: false,
            observed: false,
        }
    }

    /// Asks for all assets with a payload of type `T`.
    pub fn all<T: Message>() -> Self {
        Self::of(Filter::types([T::TYPE]))
    }

    /// Asks for the asset with this id.
    pub fn id(id: AssetId) -> Self {
        Self::of(Filter::ids([id]))
    }

    /// Asks only for assets whose id begins with `prefix`.
    #[must_use]
    pub fn under(self, prefix: impl Into<String>) -> Self {
        self.and(|of| of.under(prefix))
    }

    /// Asks only for assets that have the addon `A`.
    #[must_use]
    pub fn addon<A: Message>(self) -> Self {
        self.and(Filter::addon::<A>)
    }

    /// Asks only for assets that refer to `target`.
    #[must_use]
    pub fn refers_to(self, target: AssetId) -> Self {
        self.and(|of| of.refers_to(target))
    }

    /// Asks for the state of the assets in production, too.
    #[must_use]
    pub fn with_status(mut self) -> Self {
        self.status = true;
        self
    }

    /// Asks for what production has of the assets: the capacity and the version that their plugins find. Each asset is
    /// compared with production for it, so ask for few.
    #[must_use]
    pub fn with_observed(mut self) -> Self {
        self.observed = true;
        self
    }

    fn and(mut self, condition: impl FnOnce(Filter) -> Filter) -> Self {
        self.of = condition(self.of);
        self
    }

    /// The assets of the reader's incarnation that match, sorted by id.
    ///
    /// # Errors
    /// When they are too many or too large.
    pub fn find(&self, reader: &IncarnationReader) -> Result<Vec<Asset>, OverLimit> {
        let mut found = Vec::new();
        let mut size = 0;
        for asset in reader.matching(&self.of) {
            size += asset.canonical().len();
            found.push(asset);
            Limit::REQUIRED.check(found.len())?;
            Limit::REQUIRED_SIZE.check(size)?;
        }
        Ok(found)
    }
}

/// One asset that a function asked for, or that made a watch fire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Required {
    /// The asset as the incarnation of the request has it. If it is gone there: as it was before.
    #[serde(with = "canonical")]
    pub asset: Asset,
    /// For a watch of intent: the asset before the change. `None`: it was not there, or no watch is the cause.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "canonical_option"
    )]
    pub before: Option<Asset>,
    /// For a watch of intent: whether the incarnation of the request does not have the asset any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// The asset's state relative to its intent. `None`: it was not asked for, or enforcement does not know the asset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<SyncState>,
    /// What the asset has in production that matters to other assets. `None`: not asked for, no plugin enforces the asset,
    /// work on it is under way, or it cannot be compared with production.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// Time at which the state was found; without a state, the time at which the asset was read.
    pub as_of: Timestamp,
}

impl Required {
    /// An asset without its state in production, read at `as_of`.
    pub fn new(asset: Asset, as_of: Timestamp) -> Self {
        Self {
            asset,
            before: None,
            gone: false,
            standing: None,
            observed: None,
            as_of,
        }
    }

    /// Sets the state of the asset in production, as it was found at `as_of`.
    #[must_use]
    pub fn status(
        mut self,
        standing: Option<SyncState>,
        observed: Option<Observed>,
        as_of: Timestamp,
    ) -> Self {
        (self.standing, self.observed, self.as_of) = (standing, observed, as_of);
        self
    }

    /// Sets the asset before the change. `None`: it was not there.
    #[must_use]
    pub fn before(mut self, before: Option<Asset>) -> Self {
        self.before = before;
        self
    }

    /// Marks the asset as gone: the incarnation of the request does not have it any more.
    #[must_use]
    pub fn gone(mut self) -> Self {
        self.gone = true;
        self
    }

    /// Whether the asset was found in sync with its intent.
    pub fn is_in_sync(&self) -> bool {
        matches!(self.standing, Some(SyncState::InSync { .. }))
    }
}

/// Assets as their canonical JSON.
mod canonical {
    use prodspec_model::Asset;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(asset: &Asset, to: S) -> Result<S::Ok, S::Error> {
        let value: Value = serde_json::from_str(asset.canonical()).map_err(ser::Error::custom)?;
        value.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Asset, D::Error> {
        read(&Value::deserialize(from)?)
    }

    pub(super) fn read<E: de::Error>(value: &Value) -> Result<Asset, E> {
        let asset = Asset::try_from(value.to_string().as_str());
        asset.map_err(|error| E::custom(crate::error::with_causes(&error)))
    }
}

/// Assets that may be missing, as their canonical JSON or null.
mod canonical_option {
    use prodspec_model::Asset;
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::Value;

    use super::canonical;

    pub(super) fn serialize<S: Serializer>(
        asset: &Option<Asset>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match asset {
            Some(asset) => canonical::serialize(asset, to),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Asset>, D::Error> {
        match Value::deserialize(from)? {
            Value::Null => Ok(None),
            value => canonical::read(&value).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn r33_requirement_that_matches_too_much_fails_and_is_not_cut() {
        let assets = |count: u32| (0..count).map(|n| testing::asset(&format!("job/{n}")));
        let all = Requirement::all::<testing::Thing>();
        assert_eq!(
            all.find(&testing::reader(assets(1_000))).unwrap().len(),
            1_000
        );
        let over = all.find(&testing::reader(assets(1_001))).unwrap_err();
        assert_eq!(over.limit, Limit::REQUIRED);
        let large = assets(30).map(|asset| {
            let content = "x".repeat(140_000);
            let large = asset.edit().payload(&testing::Thing { content });
            large.unwrap().build().unwrap()
        });
        let over = all.find(&testing::reader(large)).unwrap_err();
        assert_eq!(over.limit, Limit::REQUIRED_SIZE);
    }

    #[test]
    fn required_assets_survive_a_process_boundary() {
        let asset = testing::asset("job/eu");
        let required = Required::new(asset.clone(), testing::NOW);
        let changed = required.clone().before(Some(asset)).gone();
        for required in [required, changed] {
            let json = serde_json::to_string(&required).unwrap();
            assert_eq!(serde_json::from_str::<Required>(&json).unwrap(), required);
        }
        let wrong = r#"{"asset":{"id":"job/eu"},"as_of":"2026-03-04T12:00:00Z"}"#;
        let error = serde_json::from_str::<Required>(wrong).unwrap_err();
        assert!(
            error.to_string().contains("not the JSON of an asset"),
            "{error}"
        );
    }
}
