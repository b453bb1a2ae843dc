//! Filters: conditions that choose assets, as data. Watches and requirements of functions share them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    addons::ImpactedDomains, asset::Asset, id::AssetId, message::Message, snapshot::Snapshot,
};

/// Conditions on an asset. An asset matches if every condition holds; a condition that is left out holds always, so the
/// default filter matches every asset.
///
/// ```
/// use prodspec_model::{Asset, AssetId, Filter, Message, addons::{Owner, PhysicalCluster}};
///
/// let id = AssetId::new("owner/eu")?;
/// let asset = Asset::builder(id).payload(&Owner::new("search"))?.addon(&PhysicalCluster::new("eu-1"))?.build()?;
/// assert!(Filter::types([Owner::TYPE]).addon::<PhysicalCluster>().matches(&asset));
/// assert!(!Filter::types([Owner::TYPE]).under("job/").matches(&asset));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename = "prodspec.v1.Filter")]
#[schemars(deny_unknown_fields)]
pub struct Filter {
    /// The asset has one of these ids. Empty: any id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<AssetId>,
    /// The asset has one of these types, such as `shakespeare.v1.FrontendJob`. Empty: any type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// The id of the asset begins with this text, such as `job/`. Empty: any id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub under: String,
    /// The asset has each of these addons, by their type names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addons: Vec<String>,
    /// The asset refers to each of these assets, in its payload or addons. The ids are no references themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refers_to: Vec<AssetId>,
    /// A change of the asset can harm one of these failure domains, by its `ImpactedDomains`. An asset that names none, or `global`,
    /// can harm all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// The asset matches none of these filters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Filter>,
}

impl Filter {
    /// A filter of the assets with these ids.
    pub fn ids(ids: impl IntoIterator<Item = AssetId>) -> Self {
        Self {
            ids: ids.into_iter().collect(),
            ..Self::default()
        }
    }

    /// A filter of the assets with one of these types.
    pub fn types<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self {
            types: types.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Adds the condition that the id of the asset begins with `prefix`.
    #[must_use]
    pub fn under(mut self, prefix: impl Into<String>) -> Self {
        self.under = prefix.into();
        self
    }

    /// Adds the condition that the asset has the addon `A`.
    #[must_use]
    pub fn addon<A: Message>(mut self) -> Self {
        self.addons.push(A::TYPE.to_owned());
        self
    }

    /// Adds the condition that the asset refers to `target`.
    #[must_use]
    pub fn refers_to(mut self, target: AssetId) -> Self {
        self.refers_to.push(target);
        self
    }

    /// Adds the condition that a change of the asset can harm one of these failure domains.
    #[must_use]
    pub fn domains<D: Into<String>>(mut self, domains: impl IntoIterator<Item = D>) -> Self {
        self.domains.extend(domains.into_iter().map(Into::into));
        self
    }

    /// Adds the condition that the asset does not match `other`.
    #[must_use]
    pub fn except(mut self, other: Filter) -> Self {
        self.except.push(other);
        self
    }

    /// Whether the filter has no condition, so that every asset matches.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the conditions on the id hold for `id`. If not, no asset with this id matches.
    pub fn may_be(&self, id: &AssetId) -> bool {
        self.names(id.as_str())
    }

    fn names(&self, id: &str) -> bool {
        let one_of_ids = self.ids.is_empty() || self.ids.iter().any(|it| it.as_str() == id);
        one_of_ids && id.starts_with(&self.under)
    }

    /// Whether all conditions hold for `asset`.
    pub fn matches(&self, asset: &Asset) -> bool {
        let one_of_types =
            self.types.is_empty() || self.types.iter().any(|it| it == asset.type_str());
        self.names(asset.id_str())
            && one_of_types
            && self.addons.iter().all(|name| asset.has_addon(name))
            && self.refers(asset)
            && self.harms(asset)
            && !self.except.iter().any(|other| other.matches(asset))
    }

    /// The assets of `snapshot` that match, sorted by id. Looks only at the assets with the given ids, or with references
    /// to a given one, or with the given prefix, if the filter has such a condition.
    pub fn find<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = Asset> + 'a {
        let by_id = |mut ids: Vec<AssetId>| {
            ids.sort();
            ids.dedup();
            let found = ids.into_iter().map(|id| snapshot.get(id.as_str()));
            found.flatten()
        };
        let candidates: Box<dyn Iterator<Item = Asset> + 'a> =
            match (self.ids.is_empty(), self.refers_to.first()) {
                (false, _) => Box::new(by_id(self.ids.clone())),
                (true, Some(target)) => Box::new(by_id(snapshot.referrers(target.as_str()))),
                (true, None) => Box::new(snapshot.iter_prefix(&self.under)),
            };
        candidates.filter(|asset| self.matches(asset))
    }

    fn harms(&self, asset: &Asset) -> bool {
        if self.domains.is_empty() {
            return true;
        }
        match asset.addon::<ImpactedDomains>() {
            Ok(Some(ImpactedDomains::Domains(named))) if !named.is_empty() => {
                named.iter().any(|it| self.domains.contains(it))
            }
            // One that cannot be read may harm anything.
            _ => true,
        }
    }

    fn refers(&self, asset: &Asset) -> bool {
        if self.refers_to.is_empty() {
            return true;
        }
        let targets = asset.references();
        let refers = |target| targets.binary_search(target).is_ok();
        self.refers_to.iter().all(refers)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        addons::{DependsOn, Edge, Owner, PhysicalCluster},
        id::IncarnationNo,
    };

    fn id(text: &str) -> AssetId {
        AssetId::new(text).unwrap()
    }

    #[test]
    fn r33_filter_matches_if_every_condition_holds() {
        let asset = Asset::builder(id("owner/eu"))
            .payload(&Owner::new("search"))
            .and_then(|it| it.addon(&PhysicalCluster::new("eu-1")))
            .and_then(|it| it.addon(&DependsOn::on([Edge::order(id("db/eu"))])))
            .and_then(|it| it.build())
            .unwrap();
        let all = Filter::types([Owner::TYPE, "docs.v1.Other"])
            .under("owner/")
            .addon::<PhysicalCluster>()
            .refers_to(id("db/eu"));
        assert!(all.matches(&asset));
        assert!(Filter::default().matches(&asset));
        assert!(Filter::ids([id("a"), id("owner/eu")]).matches(&asset));
        let broken = [
            Filter::ids([id("a")]),
            Filter::types(["docs.v1.Other"]),
            all.clone().under("job/"),
            all.clone().addon::<Owner>(),
            all.clone().except(Filter::default().under("owner/e")),
            all.refers_to(id("db/us")),
        ];
        for filter in broken {
            assert!(!filter.matches(&asset), "{filter:?}");
        }
    }

    #[test]
    fn r33_asset_that_names_no_domain_can_harm_all() {
        let asset = |domains: Option<ImpactedDomains>| {
            let owner = Asset::builder(id("owner/eu")).payload(&Owner::new("search"));
            let owner = owner.unwrap();
            let owner = match domains {
                Some(domains) => owner.addon(&domains).unwrap(),
                None => owner,
            };
            owner.build().unwrap()
        };
        let eu = Filter::default().domains(["eu"]);
        let named = |name: &str| asset(Some(ImpactedDomains::Domains(vec![name.into()])));
        assert!(eu.matches(&named("eu")));
        assert!(!eu.matches(&named("us")));
        assert!(eu.matches(&asset(Some(ImpactedDomains::Global))));
        assert!(eu.matches(&asset(Some(ImpactedDomains::Domains(Vec::new())))));
        assert!(eu.matches(&asset(None)));
    }

    proptest! {
        #[test]
        fn r33_assets_found_are_those_of_the_snapshot_that_match(
            assets in prop::collection::btree_map("[ab]/[a-d]", prop::option::of("[ab]/[a-d]"), 0..8),
            ids in prop::collection::vec("[ab]/[a-d]", 0..4),
            under in "(|a/)",
            target in prop::option::of("[ab]/[a-d]"),
        ) {
            let asset = |(name, provider): (&String, &Option<String>)| {
                let owner = Asset::builder(id(name)).payload(&Owner::new("search")).unwrap();
                let edges = provider.iter().map(|provider| Edge::order(id(provider)));
                owner.addon(&DependsOn::on(edges)).unwrap().build().unwrap()
            };
            let assets: Vec<Asset> = assets.iter().map(asset).collect();
            let snapshot = Snapshot::empty().edit(IncarnationNo(1), assets.clone(), &[]);
            let mut filter = Filter::ids(ids.iter().map(|it| id(it))).under(under);
            filter.refers_to = target.iter().map(|it| id(it)).collect();
            let found: Vec<Asset> = filter.find(&snapshot).collect();
            let expected: Vec<Asset> = assets.into_iter().filter(|it| filter.matches(it)).collect();
            prop_assert!(found.iter().all(|it| filter.may_be(&it.id())));
            prop_assert_eq!(found, expected);
        }
    }
}
