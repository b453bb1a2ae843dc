//! A guarded plugin whose production is a map in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use prodspec_model::{
    Asset, AssetId, Message,
    addons::{self, Moved},
};
use serde_json::Value;

use crate::{
    AssetPlugin, Change, Diff, DiffRequest, Effects, FencingToken, FieldChange, Observed,
    PushRequest, Pushed, Run, Turndown, conformance::ByHand, error::PluginError,
};

/// A plugin whose production is a map from asset id to payload. It is guarded: it refuses old tokens and late calls. It
/// renames: register it with `renames`. Clones share the production.
#[derive(Debug, Clone, Default)]
pub struct InMemoryProduction {
    state: Arc<Mutex<State>>,
    observe: Option<fn(&Value) -> Observed>,
}

#[derive(Debug, Default)]
struct State {
    payloads: BTreeMap<AssetId, String>,
    seen: BTreeMap<AssetId, (FencingToken, u32)>,
    pushed: Vec<AssetId>,
}

impl InMemoryProduction {
    /// Makes a production without resources.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the function that computes capacity and version from a payload, for tests of dependencies. Without it,
    /// nothing is observed.
    ///
    /// ```
    /// use plugin_sdk::{Observed, testing::InMemoryProduction};
    /// let production = InMemoryProduction::new().observing(|payload| {
    ///     let qps = payload["qps"].as_u64().unwrap_or(0);
    ///     Observed::default().capacity("qps", qps).version(payload["version"].as_u64())
    /// });
    /// # let _ = production;
    /// ```
    #[must_use]
    pub fn observing(self, observe: fn(&Value) -> Observed) -> Self {
        Self {
            observe: Some(observe),
            ..self
        }
    }

    /// The payload in production of `id`. `None`: the resource does not exist.
    pub fn payload(&self, id: &AssetId) -> Option<String> {
        self.state().payloads.get(id).cloned()
    }

    /// Changes production without a push. `None` removes the resource.
    pub fn tamper(&self, id: &AssetId, payload: Option<&str>) {
        let mut state = self.state();
        match payload {
            Some(payload) => state.payloads.insert(id.clone(), payload.to_owned()),
            None => state.payloads.remove(id),
        };
    }

    /// Number of pushes and turndowns that changed something.
    pub fn effective_pushes(&self) -> u64 {
        self.state().pushed.len() as u64
    }

    /// Ids of the assets whose push or turndown changed something, in order of the calls.
    pub fn pushed(&self) -> Vec<AssetId> {
        self.state().pushed.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The observed state of a payload. A resource that does not exist has no capacity and no version.
    fn observed(&self, payload: Option<&str>) -> Observed {
        let payload = payload.and_then(|payload| serde_json::from_str(payload).ok());
        let observe = self.observe.zip(payload.as_ref());
        observe.map_or_else(Observed::default, |(observe, payload)| observe(payload))
    }

    /// Compares an asset that was renamed with its resource, which still has the old id.
    fn compare_moved(&self, asset: &Asset, there: &str) -> Diff {
        let observed = self.observed(Some(there));
        let effects = Effects::between(&observed, &self.observed(Some(asset.payload_json())));
        let from = Moved::source_of(asset).map(|id| id.to_string());
        let field = FieldChange::new("id", from, asset.id_str());
        let change = Change::new(asset, "rename it", vec![field], effects);
        Diff::differs(change).observed(observed)
    }

    fn compare(&self, asset: &Asset, there: Option<String>) -> Diff {
        let down = asset.has_addon(addons::Turndown::TYPE);
        let wanted = (!down).then(|| asset.payload_json());
        let observed = self.observed(there.as_deref());
        if there.as_deref() == wanted {
            return Diff::in_sync().observed(observed);
        }
        let effects = Effects::between(&observed, &self.observed(wanted)).destructive(down);
        let summary = if down { "remove it" } else { "replace it" };
        let field = FieldChange::new("payload", there, wanted);
        let change = Change::new(asset, summary, vec![field], effects);
        Diff::differs(change).observed(observed)
    }
}

impl State {
    /// The old id under which production has the resource of a renamed asset. `None`: it has the present id, or none.
    fn old_id(&self, asset: &Asset) -> Option<AssetId> {
        let from = Moved::source_of(asset)?;
        let is_old = !self.payloads.contains_key(&asset.id()) && self.payloads.contains_key(&from);
        is_old.then_some(from)
    }

    fn admit(&mut self, id: &AssetId, token: FencingToken, run: Run) -> Result<(), PluginError> {
        let seen = self.seen.entry(id.clone()).or_default();
        if (token, run.n) < *seen {
            let (newest, n) = *seen;
            let message = format!(
                "call {}.{} for `{id}` is older than {}.{n}",
                token.0, run.n, newest.0
            );
            return Err(PluginError::fenced_by(message, newest));
        }
        *seen = (token, run.n);
        Ok(())
    }
}

#[async_trait]
impl AssetPlugin for InMemoryProduction {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, PluginError> {
        let asset = request.asset()?;
        let mut state = self.state();
        // Token 0 belongs to a plan, which is never refused.
        if request.token > FencingToken(0) {
            state.admit(request.asset_id(), request.token, request.run)?;
        }
        if let Some(there) = state
            .old_id(&asset)
            .and_then(|old| state.payloads.get(&old))
            .filter(|_| !asset.has_addon(addons::Turndown::TYPE))
        {
            return Ok(self.compare_moved(&asset, there));
        }
        let there = state.payloads.get(request.asset_id()).cloned();
        Ok(self.compare(&asset, there))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, PluginError> {
        let asset = request.asset()?;
        let mut state = self.state();
        state.admit(request.asset_id(), request.token, request.run)?;
        if let Some(old) = state.old_id(&asset) {
            state.payloads.remove(&old);
        }
        let wanted = asset.payload_json().to_owned();
        let before = state.payloads.insert(request.asset_id().clone(), wanted);
        if before.as_deref() != Some(asset.payload_json()) {
            state.pushed.push(request.asset_id().clone());
        }
        Ok(Pushed::Done)
    }
}

#[async_trait]
impl Turndown for InMemoryProduction {
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, PluginError> {
        let mut state = self.state();
        state.admit(request.asset_id(), request.token, request.run)?;
        if state.payloads.remove(request.asset_id()).is_some() {
            state.pushed.push(request.asset_id().clone());
        }
        Ok(Pushed::Done)
    }
}

/// The same production, without the plugin.
#[async_trait]
impl ByHand for InMemoryProduction {
    async fn change(&self, asset: &AssetId) {
        self.tamper(asset, Some("\"changed by hand\""));
    }

    async fn remove(&self, asset: &AssetId) {
        self.tamper(asset, None);
    }

    async fn state(&self, asset: &AssetId) -> String {
        self.payload(asset).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn with_size() -> InMemoryProduction {
        InMemoryProduction::new().observing(|payload| {
            let content = payload["content"].as_str();
            Observed::default()
                .capacity("letters", content.map_or(0, str::len) as u64)
                .version(content.map(|_| 1))
        })
    }

    fn change(diff: Diff) -> Change {
        match diff {
            Diff::Differs { change, .. } => *change,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn effects_name_capacity_and_version_changes() {
        let production = with_size();
        let thing = testing::asset("a");
        let there = Some(r#"{"content":"four"}"#.to_owned());
        let effects = change(production.compare(&thing, there)).effects;
        assert_eq!(
            effects.capacity["letters"],
            crate::Transition { from: 4, to: 0 }
        );
        assert_eq!(effects.version, None, "the version stays");
        let effects = change(production.compare(&thing, None)).effects;
        assert!(effects.capacity.is_empty(), "{effects:?}");
        let started = crate::Transition {
            from: None,
            to: Some(1),
        };
        assert_eq!(effects.version, Some(started));
    }

    #[test]
    fn turned_down_asset_is_in_sync_once_it_is_removed() {
        let production = with_size();
        let turndown = addons::Turndown {
            reason: "a test".into(),
            approved_by: "ann".into(),
        };
        let thing = testing::asset("a").edit().addon(&turndown);
        let thing = thing.and_then(|thing| thing.build()).unwrap();
        let there = Some(thing.payload_json().to_owned());
        assert!(
            change(production.compare(&thing, there))
                .effects
                .destructive
        );
        assert_eq!(production.compare(&thing, None), Diff::in_sync());
    }
}
