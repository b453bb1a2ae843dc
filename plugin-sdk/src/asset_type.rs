//! Declarations of asset types: how a payload is read, which capacity it intends, and what makes it valid.

mod view;

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc};

use prodspec_model::{Asset, Message, addons};

pub use self::view::AssetView;
use crate::{
    document::misfit,
    problem::{Problem, Problems},
};

/// The capacity that an asset intends to have: from unit to amount. Units are names that the types agree on, such as
/// `qps`.
pub type Capacity = BTreeMap<String, u64>;

type Read = Arc<dyn Fn(&str) -> Option<Problem> + Send + Sync>;
type Intends = Arc<dyn Fn(&Asset) -> Option<Capacity> + Send + Sync>;
type Valid = Arc<dyn Fn(&AssetView<'_>, &mut Problems) + Send + Sync>;

/// Declares that assets may have payloads of type `T`, and what a control plane should know about them.
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

/// The declaration of one type, without its Rust type.
#[derive(Clone)]
struct Known {
    modelled_only: bool,
    read: Read,
    capacity: Option<Intends>,
    valid: Vec<Valid>,
}

impl<T: Message> AssetType<T> {
    /// Declares `T` with a single condition: its payloads must deserialize as `T`.
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

    /// Declares that this type has no plugin and is never pushed. Use it for concepts and groups that other assets
    /// refer to.
    pub fn modelled_only(mut self) -> Self {
        self.known.modelled_only = true;
        self
    }

    /// Sets the function that computes the capacity that a payload intends, per unit. Where a dependency edge carries a
    /// unit, the consumer's own capacity in that unit is its demand on the provider.
    pub fn capacity(mut self, of: impl Fn(&T) -> Capacity + Send + Sync + 'static) -> Self {
        self.known.capacity = Some(Arc::new(move |asset| {
            asset.payload::<T>().ok().map(|payload| of(&payload))
        }));
        self
    }

    /// Adds a validator that is called with each payload and with the assets that its asset refers to. Payloads that do
    /// not deserialize as `T` are reported before, and `check` is not called for them.
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

/// All asset types and addon types that a pipeline knows. The default contains the well-known addons and no asset type.
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
    /// Adds a payload type. Replaces an earlier declaration of the same type.
    pub fn add<T: Message>(&mut self, declared: AssetType<T>) {
        self.payloads.insert(T::TYPE, declared.known);
    }

    /// Adds an addon type: every addon of this type must deserialize as an `A`.
    pub fn add_addon<A: Message>(&mut self) {
        self.addons.insert(A::TYPE, reads_as::<A>());
    }

    /// Whether an asset type of this name was added.
    pub fn knows(&self, type_name: &str) -> bool {
        self.payloads.contains_key(type_name)
    }

    /// Whether the type was added as [modelled only](AssetType::modelled_only). False for unknown types.
    pub fn is_modelled_only(&self, type_name: &str) -> bool {
        self.payloads
            .get(type_name)
            .is_some_and(|known| known.modelled_only)
    }

    /// The names of the asset types without a validator, in alphabetical order.
    pub fn without_validator(&self) -> impl Iterator<Item = &str> {
        self.payloads
            .iter()
            .filter(|(_, known)| known.valid.is_empty())
            .map(|(name, _)| *name)
    }

    /// The capacity that `asset` intends. `None`: its type declares no capacity, or its payload does not deserialize.
    /// Empty for an asset under turndown.
    pub fn capacity(&self, asset: &Asset) -> Option<Capacity> {
        let intends = self.payloads.get(asset.type_str())?.capacity.as_ref()?;
        if asset.has_addon(addons::Turndown::TYPE) {
            return Some(Capacity::new());
        }
        intends(asset)
    }

    /// Reports the payload and each addon of `asset` that does not deserialize as its type, with the field path.
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
                let field = match &*problem.field {
                    "" => part,
                    inside if inside.starts_with('[') => part + inside,
                    inside => format!("{part}.{inside}"),
                };
                Problem::with(asset, problem.message).field(field)
            })
            .collect()
    }

    /// Runs the validators that were added with [`AssetType::valid`] for the type of the asset.
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

impl<T> std::fmt::Debug for AssetType<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AssetType")
            .field("modelled_only", &self.known.modelled_only)
            .finish_non_exhaustive()
    }
}
