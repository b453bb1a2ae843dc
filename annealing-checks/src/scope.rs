//! The scope of a check: the asset types that it applies to, and the keys under which it counts. Shared by all checks
//! of this crate.

use std::{fmt, sync::Arc};

use plugin_sdk::{BoxError, CheckName, CheckRequest, Key};
use prodspec_model::{
    Asset, Filter, Snapshot,
    addons::{ImpactedDomains, PhysicalCluster},
};

/// The asset types that a check applies to. The default is all types.
#[derive(Debug, Clone, Default)]
pub struct Types(Option<Arc<[String]>>);

impl Types {
    /// Only the types with these names, such as `shakespeare.v1.FrontendJob`.
    pub fn only<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self(Some(types.into_iter().map(Into::into).collect()))
    }

    /// Whether a check with these types applies to the asset of `request`.
    ///
    /// If the asset cannot be read, its type is unknown and the check applies.
    pub fn apply(&self, request: &CheckRequest) -> bool {
        if self.0.is_none() {
            return true;
        }
        let asset = request.reader().get(request.asset_id());
        asset.is_none_or(|asset| self.has(&asset))
    }

    fn has(&self, asset: &Asset) -> bool {
        let types = self.0.as_ref();
        types.is_none_or(|types| types.iter().any(|name| name == asset.type_str()))
    }
}

type KeyOf = dyn Fn(&Asset) -> Option<String> + Send + Sync;

/// Decides which assets count together. The keys of claims are made from it.
///
/// ```
/// use annealing_checks::Scope;
///
/// let all = Scope::all();
/// let per_type = Scope::per_type();
/// let eu_and_us = Scope::per_domain(["eu", "us"]);
/// let databases = Scope::by(|asset| asset.id_str().starts_with("db/").then(|| "databases".into()));
/// ```
#[derive(Clone)]
pub struct Scope {
    kind: Kind,
    types: Types,
    of: Filter,
}

#[derive(Clone)]
enum Kind {
    All,
    Type,
    Cluster,
    Domains(Arc<[String]>),
    By(Arc<KeyOf>),
}

impl Scope {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            types: Types::default(),
            of: Filter::default(),
        }
    }

    /// All assets of the partition count together.
    pub fn all() -> Self {
        Self::new(Kind::All)
    }

    /// Assets of one type count together.
    pub fn per_type() -> Self {
        Self::new(Kind::Type)
    }

    /// Assets with the same `PhysicalCluster` count together. An asset without a cluster is not counted.
    pub fn per_cluster() -> Self {
        Self::new(Kind::Cluster)
    }

    /// Assets that can hurt the same failure domain count together, with one count for each of `domains`.
    ///
    /// An asset with several domains counts in each of them. An asset that can hurt `Global`, or names no domain,
    /// counts in all. A domain that is not in `domains` is an error, and the push waits.
    pub fn per_domain<D: Into<String>>(domains: impl IntoIterator<Item = D>) -> Self {
        Self::new(Kind::Domains(domains.into_iter().map(Into::into).collect()))
    }

    /// Assets for which `key` returns the same text count together. An asset for which it returns `None` is not
    /// counted.
    pub fn by(key: impl Fn(&Asset) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::new(Kind::By(Arc::new(key)))
    }

    /// Limits the scope to assets of these types; other assets are not counted.
    #[must_use]
    pub fn only(self, types: Types) -> Self {
        Self { types, ..self }
    }

    /// Limits the scope to assets that match `of`; other assets are not counted.
    #[must_use]
    pub fn matching(self, of: Filter) -> Self {
        Self { of, ..self }
    }

    /// The parts in which an asset counts. None if it cannot be read.
    pub(crate) fn parts_of(&self, asset: &Asset) -> Vec<String> {
        match self.types.has(asset) && self.of.matches(asset) {
            true => self.parts(asset).unwrap_or_default(),
            false => Vec::new(),
        }
    }

    /// All assets of a snapshot that may count.
    pub(crate) fn find(&self, snapshot: &Snapshot) -> Vec<Asset> {
        self.of.find(snapshot).collect()
    }

    /// The keys under which a push counts. They begin with the check's name, so that two checks never share a key.
    pub(crate) fn keys(
        &self,
        check: &CheckName,
        request: &CheckRequest,
    ) -> Result<Vec<Key>, BoxError> {
        let parts = self.values(request)?;
        Ok(parts.iter().map(|part| Self::key(check, part)).collect())
    }

    /// The key of a part of the scope.
    pub(crate) fn key(check: &CheckName, part: &str) -> Key {
        Key::from(format!("{check}/{part}").as_str())
    }

    /// The clusters, domains or types under which the asset of `request` counts.
    pub(crate) fn values(&self, request: &CheckRequest) -> Result<Vec<String>, BoxError> {
        if !self.types.apply(request) {
            return Ok(Vec::new());
        }
        let asset = request.asset()?;
        match self.of.matches(&asset) {
            true => self.parts(&asset),
            false => Ok(Vec::new()),
        }
    }

    fn parts(&self, asset: &Asset) -> Result<Vec<String>, BoxError> {
        Ok(match &self.kind {
            Kind::All => vec!["all".into()],
            Kind::Type => vec![asset.type_str().into()],
            Kind::By(key) => key(asset).into_iter().collect(),
            Kind::Cluster => {
                let cluster = asset.addon::<PhysicalCluster>()?;
                cluster.into_iter().map(|at| at.cluster).collect()
            }
            Kind::Domains(known) => match asset.addon::<ImpactedDomains>()? {
                None | Some(ImpactedDomains::Global) => known.to_vec(),
                Some(ImpactedDomains::Domains(hurt)) => {
                    if let Some(unknown) = hurt.iter().find(|domain| !known.contains(domain)) {
                        return Err(format!(
                            "`{}` can hurt the domain `{unknown}`, which this check does not know; add it to the scope",
                            asset.id_str()
                        )
                        .into());
                    }
                    if hurt.is_empty() {
                        known.to_vec()
                    } else {
                        hurt
                    }
                }
            },
        })
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::All => "all",
            Kind::Type => "per type",
            Kind::Cluster => "per cluster",
            Kind::Domains(_) => "per domain",
            Kind::By(_) => "by function",
        };
        f.debug_struct("Scope")
            .field("kind", &kind)
            .field("types", &self.types)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use plugin_sdk::testing;

    use super::*;

    #[test]
    fn s10_asset_that_names_no_domain_counts_in_all() {
        let scope = Scope::per_domain(["eu", "us"]);
        let parts = |domains| {
            let asset = testing::asset("a").edit().addon(&domains).unwrap();
            scope.parts(&asset.build().unwrap()).unwrap()
        };
        assert_eq!(parts(ImpactedDomains::Domains(vec![])), ["eu", "us"]);
        assert_eq!(parts(ImpactedDomains::Global), ["eu", "us"]);
        assert_eq!(parts(ImpactedDomains::Domains(vec!["us".into()])), ["us"]);
    }
}
