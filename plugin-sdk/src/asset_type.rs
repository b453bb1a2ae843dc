//! Declarations of asset types: how a payload is read, which capacity it intends, and what makes it valid.

mod addon;
mod read;
mod view;

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc};

use prodspec_model::{Asset, Message, TypeName, addons};
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;

pub use self::{addon::AddonType, view::AssetView};
use self::{
    addon::KnownAddon,
    read::{Read, reads_as},
};
use crate::problem::{Problem, Problems};

/// The capacity that an asset intends to have: from unit to amount. Units are names that the types agree on, such as
/// `qps`.
pub type Capacity = BTreeMap<String, u64>;

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
    name: Arc<str>,
    known: Known,
    payload: PhantomData<fn() -> T>,
}

/// The declaration of one type, without its Rust type.
#[derive(Clone)]
struct Known {
    modelled_only: bool,
    schema: Option<serde_json::Value>,
    read: Read,
    capacity: Option<Intends>,
    valid: Vec<Valid>,
}

impl<T: Message> AssetType<T> {
    /// Declares `T` with a single condition: its payloads must deserialize as `T`, without fields that `T` does not have.
    pub fn new() -> Self {
        Self::of(T::TYPE.into())
    }
}

impl AssetType<serde_json::Value> {
    /// Declares a type that is known by name only, for example because a file names it at run time. Its payloads are any
    /// JSON; [`valid`](Self::valid) can demand more.
    ///
    /// ```
    /// use plugin_sdk::AssetType;
    /// use prodspec_model::TypeName;
    ///
    /// let deployment = AssetType::named(&TypeName::new("kubernetes.apps.v1.Deployment")?)
    ///     .valid(|payload, view, problems| {
    ///         if payload["spec"].is_null() {
    ///             problems.push(view.problem("has no spec; add one").field("payload.spec"));
    ///         }
    ///     });
    /// # let _ = deployment;
    /// # Ok::<(), prodspec_model::id::InvalidId>(())
    /// ```
    pub fn named(name: &TypeName) -> Self {
        Self::of(name.as_str().into())
    }
}

impl<T: DeserializeOwned + 'static> AssetType<T> {
    fn of(name: Arc<str>) -> Self {
        Self {
            name,
            known: Known {
                modelled_only: false,
                schema: None,
                read: reads_as::<T>(),
                capacity: None,
                valid: Vec::new(),
            },
            payload: PhantomData,
        }
    }

    /// The name of the type.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds the JSON Schema of the payload, from its Rust type. It is for people, editors and other languages; payloads
    /// are checked by deserializing them.
    pub fn described(self) -> Self
    where
        T: JsonSchema,
    {
        self.schema(schema_for!(T).to_value())
    }

    /// As [`described`](Self::described), with a schema from elsewhere.
    pub fn schema(mut self, schema: serde_json::Value) -> Self {
        self.known.schema = Some(schema);
        self
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
            let payload = serde_json::from_str(asset.payload_json());
            payload.ok().map(|payload| of(&payload))
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
            if let Ok(payload) = serde_json::from_str(view.asset().payload_json()) {
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

/// All asset types and addon types that a pipeline knows. The default contains the well-known addons and no asset type.
#[derive(Clone)]
pub struct AssetTypes {
    payloads: BTreeMap<Arc<str>, Known>,
    addons: BTreeMap<&'static str, KnownAddon>,
}

impl Default for AssetTypes {
    fn default() -> Self {
        let mut types = Self {
            payloads: BTreeMap::new(),
            addons: BTreeMap::new(),
        };
        types.add_addon(AddonType::<addons::DependsOn>::new().described());
        types.add_addon(AddonType::<addons::ImpactedDomains>::new().described());
        types.add_addon(AddonType::<addons::PhysicalCluster>::new().described());
        types.add_addon(AddonType::<addons::RolloutPolicyRef>::new().described());
        types.add_addon(AddonType::<addons::Turndown>::new().described());
        types.add_addon(AddonType::<addons::Moved>::new().described());
        types.add_addon(AddonType::<addons::Owner>::new().described());
        types
    }
}

impl AssetTypes {
    /// Adds a payload type. Replaces an earlier declaration of the same type, but keeps its schema if the new one has none.
    pub fn add<T>(&mut self, declared: AssetType<T>) {
        let AssetType {
            name, mut known, ..
        } = declared;
        let before = self.payloads.remove(&name);
        known.schema = known.schema.or(before.and_then(|before| before.schema));
        self.payloads.insert(name, known);
    }

    /// Adds an addon type. Replaces an earlier declaration of the same type, but keeps its schema if the new one has none.
    pub fn add_addon<A: Message>(&mut self, declared: AddonType<A>) {
        let mut known = declared.known;
        let before = self.addons.remove(A::TYPE);
        known.schema = known.schema.or(before.and_then(|before| before.schema));
        self.addons.insert(A::TYPE, known);
    }

    /// The JSON Schemas of the payload types and addon types that have one, by type name.
    pub fn schemas(&self) -> BTreeMap<&str, &serde_json::Value> {
        let payloads = self.payloads.iter();
        let payloads = payloads.map(|(name, known)| (&**name, known.schema.as_ref()));
        let addons = self.addons.iter();
        let addons = addons.map(|(name, addon)| (*name, addon.schema.as_ref()));
        let all = payloads.chain(addons);
        all.filter_map(|(name, schema)| Some((name, schema?)))
            .collect()
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
            .map(|(name, _)| &**name)
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

    /// Reports the payload and each addon of `asset` that does not deserialize as its type, or has a field that the type
    /// does not have, with the field path.
    pub fn misfits(&self, asset: &Asset) -> Problems {
        let known = self.payloads.get(asset.type_str());
        let payload = known
            .and_then(|known| (known.read)(asset.payload_json()))
            .map(|problem| ("payload".to_owned(), problem));
        let addon = |(name, json): (&str, &str)| {
            let problem = (self.addons.get(name)?.read)(json)?;
            Some((format!("addons.{name}"), problem))
        };
        payload
            .into_iter()
            .chain(asset.addons().filter_map(addon))
            .map(|(part, problem)| {
                let field = within(&part, &problem.field);
                Problem::with(asset, problem.message).field(field)
            })
            .collect()
    }

    /// Runs the validators that were added with [`AssetType::valid`] for the type of the asset, and with
    /// [`AddonType::valid`] for the types of its addons.
    pub fn validate(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let payload = self.payloads.get(view.asset().type_str());
        let payload = payload.map(|known| &known.valid);
        let addon = |(name, _): (&str, &str)| self.addons.get(name).map(|known| &known.valid);
        let addons = view.asset().addons().filter_map(addon);
        for valid in payload.into_iter().chain(addons).flatten() {
            valid(view, problems);
        }
    }
}

/// The path of the field `inside` of a part of an asset, such as `payload`.
fn within(part: &str, inside: &str) -> String {
    match inside {
        "" => part.to_owned(),
        inside if inside.starts_with('[') => format!("{part}{inside}"),
        inside => format!("{part}.{inside}"),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{self, Thing};

    #[test]
    fn type_known_by_name_is_declared_at_run_time() {
        let name = TypeName::new(Thing::TYPE).unwrap();
        let named = AssetType::named(&name)
            .capacity(|payload| {
                [(
                    "keys".to_owned(),
                    payload.as_object().map_or(0, |it| it.len() as u64),
                )]
                .into()
            })
            .schema(json!({ "type": "object" }));
        let mut types = AssetTypes::default();
        types.add(named);
        assert!(types.knows(Thing::TYPE));
        assert_eq!(types.schemas()[Thing::TYPE], &json!({ "type": "object" }));
        let asset = testing::asset("asset/x");
        assert!(types.misfits(&asset).is_empty());
        assert_eq!(types.capacity(&asset).unwrap().len(), 1);
    }

    #[test]
    fn well_known_addons_have_schemas_that_name_their_fields() {
        let types = AssetTypes::default();
        let schemas = types.schemas();
        let turndown = schemas[addons::Turndown::TYPE].to_string();
        assert!(turndown.contains("approved_by"), "{turndown}");
        let depends = schemas[addons::DependsOn::TYPE].to_string();
        assert!(depends.contains("$asset"), "{depends}");
    }
}
