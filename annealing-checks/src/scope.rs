//! What a check is about: which types it looks at, and under which keys it counts. Shared by every check here.

use std::{fmt, sync::Arc};

use plugin_sdk::{BoxError, CheckName, CheckRequest, Key};
use prodspec_model::{
    Asset,
    addons::{ImpactedDomains, PhysicalCluster},
};

/// Asset types that a check applies to. By default all.
#[derive(Debug, Clone, Default)]
pub struct Types(Option<Arc<[String]>>);

impl Types {
    /// Only these types, such as `shakespeare.v1.FrontendJob`.
    pub fn only<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self(Some(types.into_iter().map(Into::into).collect()))
    }

    /// Whether a check of these types applies to the asset asked about.
    ///
    /// An asset that cannot be read has no known type: the check applies.
    pub fn apply(&self, request: &CheckRequest) -> bool {
        let Some(types) = &self.0 else {
            return true;
        };
        match request.reader.get(&request.asset) {
            Some(asset) => types.iter().any(|name| name == asset.type_str()),
            None => true,
        }
    }
}

type KeyOf = dyn Fn(&Asset) -> Option<String> + Send + Sync;

/// Which assets count together: what a claim's key is made from.
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
        }
    }

    /// The whole partition counts together.
    pub fn all() -> Self {
        Self::new(Kind::All)
    }

    /// Assets of one type count together.
    pub fn per_type() -> Self {
        Self::new(Kind::Type)
    }

    /// Assets with the same `PhysicalCluster` count together. An asset in no cluster is not counted.
    pub fn per_cluster() -> Self {
        Self::new(Kind::Cluster)
    }

    /// Assets that can hurt the same failure domain count together, one count for each of `domains`.
    ///
    /// An asset with several counts in each of them. One that says `Global`, or names no domain that it can hurt, counts
    /// in all. A domain that is not listed here is an error, and the push waits.
    pub fn per_domain<D: Into<String>>(domains: impl IntoIterator<Item = D>) -> Self {
        Self::new(Kind::Domains(domains.into_iter().map(Into::into).collect()))
    }

    /// Assets for which `key` gives the same text count together. `None` is not counted.
    pub fn by(key: impl Fn(&Asset) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::new(Kind::By(Arc::new(key)))
    }

    /// Only assets of these types are counted.
    #[must_use]
    pub fn only(self, types: Types) -> Self {
        Self { types, ..self }
    }

    /// The keys that a push counts under. They begin with the check's name, so that two checks do not meet.
    pub(crate) fn keys(
        &self,
        check: &CheckName,
        request: &CheckRequest,
    ) -> Result<Vec<Key>, BoxError> {
        if !self.types.apply(request) {
            return Ok(Vec::new());
        }
        let parts = self.parts(&request.reader.asset(&request.asset)?)?;
        let key = |part: &String| Key::from(format!("{check}/{part}").as_str());
        Ok(parts.iter().map(key).collect())
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
    fn s10_whoever_names_no_domain_counts_in_all() {
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
