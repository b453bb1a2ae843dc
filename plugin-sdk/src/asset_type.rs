//! Asset types as a control plane knows them: how a payload reads, what capacity it intends, what makes it valid.

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc};

use prodspec_model::{Asset, Message, addons};

use crate::{
    document::misfit,
    problem::{Problem, Problems},
    validate::AssetView,
};

/// The capacity that an asset intends to have, per unit.
pub type Capacity = BTreeMap<String, u64>;

type Read = Arc<dyn Fn(&str) -> Option<Problem> + Send + Sync>;
type Intends = Arc<dyn Fn(&Asset) -> Option<Capacity> + Send + Sync>;
type Valid = Arc<dyn Fn(&AssetView<'_>, &mut Problems) + Send + Sync>;

/// Declares that assets may have payloads of type `T`.
///
/// ```
/// use plugin_sdk::AssetType;
/// use prodspec_model::Message;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct FrontendJob { replicas: u64, qps_each: u64 }
/// impl Message for FrontendJob { const TYPE: &'static str = "shakespeare.v1.FrontendJob"; }
///
/// let job = AssetType::<FrontendJob>::new()
///     .capacity(|job| [("qps".to_owned(), job.replicas * job.qps_each)].into())
///     .valid(|job, view, problems| {
///         if job.replicas == 0 {
///             problems.push(view.problem("a job needs at least one replica").field("payload.replicas"));
///         }
///     });
/// # let _ = job;
/// ```
#[must_use]
pub struct AssetType<T> {
    known: Known,
    payload: PhantomData<fn() -> T>,
}

/// What is known of one type.
#[derive(Clone)]
struct Known {
    modelled_only: bool,
    read: Read,
    capacity: Option<Intends>,
    valid: Vec<Valid>,
}

impl<T: Message> AssetType<T> {
    /// A payload of type `T` is fine if it reads as one.
    pub fn new() -> Self {
        Self {
            known: Known {
                modelled_only: false,
                read: reads_as::<T>(),
                capacity: None,
                valid: Vec::new(),
            },
            payload: PhantomData,
        }
    }

    /// No plugin will ever push it: a concept or a group that others refer to.
    pub fn modelled_only(mut self) -> Self {
        self.known.modelled_only = true;
        self
    }

    /// What capacity a payload asks for, per unit. Where dependency edges carry a unit, a consumer's own capacity in
    /// it is its demand.
    pub fn capacity(mut self, of: impl Fn(&T) -> Capacity + Send + Sync + 'static) -> Self {
        self.known.capacity = Some(Arc::new(move |asset| {
            asset.payload::<T>().ok().map(|payload| of(&payload))
        }));
        self
    }

    /// Looks at each payload, with what the asset refers to. A payload that does not read as a `T` is reported
    /// without asking.
    pub fn valid(
        mut self,
        check: impl Fn(&T, &AssetView<'_>, &mut Problems) + Send + Sync + 'static,
    ) -> Self {
        self.known.valid.push(Arc::new(move |view, problems| {
            if let Ok(payload) = view.asset().payload::<T>() {
                check(&payload, view, problems);
            }
        }));
        self
    }
}

impl<T: Message> Default for AssetType<T> {
    fn default() -> Self {
        Self::new()
    }
}

fn reads_as<T: Message>() -> Read {
    Arc::new(|json| {
        serde_json::from_str::<T>(json)
            .err()
            .map(|error| misfit::<T>(json).unwrap_or_else(|| Problem::new(error)))
    })
}

/// Every type that a pipeline knows. Starts with the well-known addons.
#[derive(Clone)]
pub struct AssetTypes {
    payloads: BTreeMap<&'static str, Known>,
    addons: BTreeMap<&'static str, Read>,
}

impl Default for AssetTypes {
    fn default() -> Self {
        let mut types = Self {
            payloads: BTreeMap::new(),
            addons: BTreeMap::new(),
        };
        types.add_addon::<addons::DependsOn>();
        types.add_addon::<addons::ImpactedDomains>();
        types.add_addon::<addons::PhysicalCluster>();
        types.add_addon::<addons::RolloutPolicyRef>();
        types.add_addon::<addons::Turndown>();
        types.add_addon::<addons::Owner>();
        types
    }
}

impl AssetTypes {
    /// Adds a payload type, or replaces what was said about it.
    pub fn add<T: Message>(&mut self, declared: AssetType<T>) {
        self.payloads.insert(T::TYPE, declared.known);
    }

    /// Adds an addon type: where it is present it must read as an `A`.
    pub fn add_addon<A: Message>(&mut self) {
        self.addons.insert(A::TYPE, reads_as::<A>());
    }

    /// Whether payloads of this type are known.
    pub fn knows(&self, type_name: &str) -> bool {
        self.payloads.contains_key(type_name)
    }

    /// Whether the type is known to have no plugin.
    pub fn is_modelled_only(&self, type_name: &str) -> bool {
        self.payloads
            .get(type_name)
            .is_some_and(|known| known.modelled_only)
    }

    /// The types for which nobody wrote a validator.
    pub fn without_validator(&self) -> impl Iterator<Item = &str> {
        self.payloads
            .iter()
            .filter(|(_, known)| known.valid.is_empty())
            .map(|(name, _)| *name)
    }

    /// What capacity `asset` intends: `None` when its type declares none, empty under turndown.
    pub fn capacity(&self, asset: &Asset) -> Option<Capacity> {
        let intends = self.payloads.get(asset.type_str())?.capacity.as_ref()?;
        if asset.has_addon(addons::Turndown::TYPE) {
            return Some(Capacity::new());
        }
        intends(asset)
    }

    /// Every part of `asset` that does not read as its type, with the field path.
    pub fn misfits(&self, asset: &Asset) -> Problems {
        let known = self.payloads.get(asset.type_str());
        let payload = known
            .and_then(|known| (known.read)(asset.payload_json()))
            .map(|problem| ("payload".to_owned(), problem));
        let addon = |(name, json): (&str, &str)| {
            let problem = (self.addons.get(name)?)(json)?;
            Some((format!("addons.{name}"), problem))
        };
        payload
            .into_iter()
            .chain(asset.addons().filter_map(addon))
            .map(|(part, problem)| {
                let field = match problem.field.as_str() {
                    "" => part,
                    inside if inside.starts_with('[') => part + inside,
                    inside => format!("{part}.{inside}"),
                };
                Problem::with(asset, problem.message).field(field)
            })
            .collect()
    }

    /// Runs what was declared with [`AssetType::valid`].
    pub fn validate(&self, view: &AssetView<'_>, problems: &mut Problems) {
        if let Some(known) = self.payloads.get(view.asset().type_str()) {
            known.valid.iter().for_each(|valid| valid(view, problems));
        }
    }
}

impl std::fmt::Debug for AssetTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.payloads.keys()).finish()
    }
}
