//! Declarations of addon types: how an addon is read, and what makes it valid.

use std::{marker::PhantomData, sync::Arc};

use prodspec_model::Message;
use schemars::{JsonSchema, schema_for};

use super::{
    AssetView, Valid,
    read::{Read, reads_as},
    within,
};
use crate::problem::Problems;

/// Declares that assets may have addons of type `A`, and what makes one valid.
///
/// ```
/// use plugin_sdk::{AddonType, Problem};
/// use prodspec_model::addons::Owner;
///
/// let owner = AddonType::<Owner>::new().valid(|owner, _view, problems| {
///     if !owner.owner.ends_with("-team") {
///         problems.push(Problem::new("must be the name of a team, such as `search-team`").field("owner"));
///     }
/// });
/// # let _ = owner;
/// ```
#[must_use]
pub struct AddonType<A> {
    pub(super) known: KnownAddon,
    addon: PhantomData<fn() -> A>,
}

/// The declaration of one addon type, without its Rust type.
#[derive(Clone)]
pub(super) struct KnownAddon {
    pub(super) read: Read,
    pub(super) schema: Option<serde_json::Value>,
    pub(super) valid: Vec<Valid>,
}

impl<A: Message> AddonType<A> {
    /// Declares `A` with a single condition: its addons must deserialize as `A`, without fields that `A` does not have.
    pub fn new() -> Self {
        Self {
            known: KnownAddon {
                read: reads_as::<A>(),
                schema: None,
                valid: Vec::new(),
            },
            addon: PhantomData,
        }
    }

    /// Adds the JSON Schema of the addon, from its Rust type. It is for people, editors and other languages; addons are
    /// checked by deserializing them.
    pub fn described(mut self) -> Self
    where
        A: JsonSchema,
    {
        self.known.schema = Some(schema_for!(A).to_value());
        self
    }

    /// Adds a validator that is called with each addon of this type, its asset, and the assets that the asset refers
    /// to. Fields of its problems are fields of the addon: the framework adds the asset and the name of the addon.
    /// Addons that do not deserialize as `A` are reported before, and `check` is not called for them.
    pub fn valid(
        mut self,
        check: impl Fn(&A, &AssetView<'_>, &mut Problems) + Send + Sync + 'static,
    ) -> Self {
        self.known.valid.push(Arc::new(move |view, problems| {
            let Ok(Some(addon)) = view.asset().addon::<A>() else {
                return;
            };
            let mut found = Problems::none();
            check(&addon, view, &mut found);
            let part = format!("addons.{}", A::TYPE);
            problems.extend(found.into_iter().map(|mut problem| {
                problem.field = within(&part, &problem.field).into();
                match problem.asset {
                    Some(_) => problem,
                    None => problem
                        .asset(view.asset().id())
                        .origin(&view.asset().provenance()),
                }
            }));
        }));
        self
    }
}

impl<A: Message> Default for AddonType<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A> std::fmt::Debug for AddonType<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddonType").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use prodspec_model::{
        Asset, Filter, Snapshot,
        addons::{DependsOn, Edge, Owner, PhysicalCluster, RolloutPolicyRef, Turndown},
        operation::{
            Concurrency, CronOperation, History, Operation, PipelineStep, Power, Schedule,
            StatusIs, Watch, WatchOperation,
        },
        rollout::{Amount, RolloutPolicy},
        tolerant::newer,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::{AssetType, AssetTypes, Problem, testing};

    fn with_addon(name: &str, addon: &Value) -> Asset {
        let name = prodspec_model::TypeName::new(name).unwrap();
        let asset = testing::asset("asset/x").edit().addon_value(name, addon);
        asset.unwrap().build().unwrap()
    }

    /// Names of variants in the samples, which the paths of unknown fields leave out.
    const VARIANTS: [&str; 3] = ["edit", "intent", "status"];

    /// A newer version adds a field to each object of the sample in turn. Readers of this version must not see it, and
    /// the seal must refuse it.
    fn law<T: Message + PartialEq + std::fmt::Debug>(
        sample: &T,
        closed: &[&str],
        part: &str,
        asset: impl Fn(&Value) -> Asset,
        read: impl Fn(&Asset) -> T,
    ) {
        let mut types = AssetTypes::default();
        types.add(AssetType::<testing::Thing>::new());
        types.add(AssetType::<RolloutPolicy>::new());
        types.add(AssetType::<Operation>::new());
        types.add(AssetType::<CronOperation>::new());
        types.add(AssetType::<WatchOperation>::new());
        for (at, newer) in newer(&serde_json::to_value(sample).unwrap(), closed) {
            let asset = asset(&newer);
            assert_eq!(read(&asset), *sample, "a field more in `{at}`");
            let steps = at.split('/').skip(1);
            let steps = steps.filter(|step| !VARIANTS.contains(step));
            let field = steps.fold(part.to_owned(), |path, step| match step.parse::<u32>() {
                Ok(nth) => format!("{path}[{nth}]"),
                Err(_) => format!("{path}.{step}"),
            });
            let said = types.misfits(&asset).to_string();
            let wanted = format!("{field}.from_a_newer_version: unknown field");
            assert!(said.contains(&wanted), "{wanted}: {said}");
        }
    }

    fn addon_law<A: Message + PartialEq + std::fmt::Debug>(sample: &A, closed: &[&str]) {
        let read = |asset: &Asset| asset.addon::<A>().unwrap().unwrap();
        let asset = |newer: &Value| with_addon(A::TYPE, newer);
        law(sample, closed, &format!("addons.{}", A::TYPE), asset, read);
    }

    fn payload_law<T: Message + PartialEq + std::fmt::Debug>(sample: &T, closed: &[&str]) {
        let asset = |newer: &Value| {
            let id = prodspec_model::AssetId::new("asset/x").unwrap();
            let name = T::type_name().unwrap();
            let asset = Asset::builder(id).payload_value(name, newer);
            asset.unwrap().build().unwrap()
        };
        let read = |asset: &Asset| asset.payload::<T>().unwrap();
        law(sample, closed, "payload", asset, read);
    }

    #[test]
    fn operations_of_newer_versions_are_read_and_refused_at_the_seal() {
        let step = PipelineStep::new("run", "reindex")
            .input(json!([1]))
            .retry_limit(2);
        let powers = [Power::edit("m.yaml", "a"), Power::start("season")];
        let template = Operation::pipeline([step]).may(powers);
        let cron = CronOperation {
            schedule: Schedule::new("@daily"),
            starting_deadline_secs: None,
            concurrency: Concurrency::Forbid,
            history: History::default(),
            template: template.clone(),
        };
        let types = || Filter::types([testing::Thing::TYPE]);
        let intent = Watch::intent().fields(["payload"]).of(types());
        let status = Watch::status([StatusIs::Unhealthy]).of(types());
        payload_law(&template, &["/may/*"]);
        payload_law(&cron, &["/template/may/*"]);
        for on in [intent, status] {
            let watch = WatchOperation::new(on, template.clone());
            payload_law(&watch, &["/on", "/template/may/*"]);
        }
    }

    #[test]
    fn addons_of_newer_versions_are_read_and_refused_at_the_seal() {
        let id = || prodspec_model::AssetId::new("db/eu").unwrap();
        // A reference has no other keys; needs are read by a tag, and serde does not say what it ignores beside it.
        let closed = ["/edges/*/provider", "/edges/*/need"];
        addon_law(&DependsOn::on([Edge::capacity(id(), "qps")]), &closed);
        addon_law(&PhysicalCluster::new("eu-1"), &[]);
        addon_law(&RolloutPolicyRef::to(id()), &["/policy"]);
        addon_law(&Turndown::new("moved", "ada"), &[]);
        addon_law(&Owner::new("search-team"), &[]);
    }

    #[test]
    fn policies_of_newer_versions_are_read_and_refused_at_the_seal() {
        let second = std::time::Duration::from_secs(1);
        let policy = RolloutPolicy::default().canary(1, second);
        let policy = policy
            .wave(Amount::Count(2), second)
            .emergency("ada", "fire");
        payload_law(&policy, &["/waves/*/upto"]);
    }

    #[test]
    fn unknown_need_of_a_newer_version_is_the_strictest_and_refused_at_the_seal() {
        let edge = json!({ "provider": { "$asset": "db/eu" }, "need": { "kind": "latency" } });
        let asset = with_addon(DependsOn::TYPE, &json!({ "edges": [edge] }));
        let provider = prodspec_model::AssetId::new("db/eu").unwrap();
        assert_eq!(DependsOn::edges_of(&asset), [Edge::order(provider)]);
        let said = AssetTypes::default().misfits(&asset).to_string();
        assert!(
            said.contains("edges[0].need.kind: unknown variant `latency`"),
            "{said}"
        );
    }

    #[test]
    fn payload_with_a_field_that_its_type_ignores_is_refused_at_the_seal() {
        let mut types = AssetTypes::default();
        types.add(AssetType::<testing::Thing>::new());
        let payload = json!({ "content": "x", "replicas": 2 });
        let name = prodspec_model::TypeName::new(testing::Thing::TYPE).unwrap();
        let id = prodspec_model::AssetId::new("asset/x").unwrap();
        let asset = Asset::builder(id).payload_value(name, &payload).unwrap();
        let asset = asset.build().unwrap();
        assert_eq!(asset.payload::<testing::Thing>().unwrap().content, "x");
        assert_eq!(
            types.misfits(&asset).to_string(),
            "asset/x: payload.replicas: unknown field; remove it, or declare it in the type"
        );
    }

    #[test]
    fn problem_of_an_addon_names_asset_addon_and_field() {
        let mut types = AssetTypes::default();
        let declared = AddonType::<Owner>::new().valid(|owner, _, problems| {
            if owner.owner.is_empty() {
                problems.push(Problem::new("must not be empty").field("owner"));
                problems.push(Problem::new("is of no use"));
            }
        });
        types.add_addon(declared);
        assert!(
            types.schemas().contains_key(Owner::TYPE),
            "the schema stays"
        );
        let judge = |owner: &str| {
            let asset = testing::asset("asset/x").edit().addon(&Owner::new(owner));
            let asset = asset.unwrap().build().unwrap();
            let snapshot = Snapshot::empty();
            let mut problems = Problems::none();
            types.validate(&AssetView::new(&asset, &snapshot, &types), &mut problems);
            problems.to_string()
        };
        assert_eq!(judge("search-team"), "");
        assert_eq!(
            judge(""),
            "asset/x: addons.prodspec.v1.Owner.owner: must not be empty\n\
             asset/x: addons.prodspec.v1.Owner: is of no use"
        );
    }
}
