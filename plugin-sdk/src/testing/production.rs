//! A plugin whose production is a map in memory, and which keeps old calls out.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use prodspec_model::{Asset, AssetId};

use crate::{
    AssetPlugin, Change, Diff, DiffRequest, Effects, FencingToken, FieldChange, Observed,
    PushRequest, Pushed, Run, Turndown, error::PluginError,
};

/// Production as a map from asset id to payload. Guarded: it refuses old tokens and old calls.
#[derive(Debug, Default)]
pub struct InMemoryProduction(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    payloads: BTreeMap<AssetId, String>,
    seen: BTreeMap<AssetId, (FencingToken, u32)>,
    pushes: u64,
}

impl InMemoryProduction {
    /// Nothing is there.
    pub fn new() -> Self {
        Self::default()
    }

    /// The payload that is there for `id`.
    pub fn payload(&self, id: &AssetId) -> Option<String> {
        self.state().payloads.get(id).cloned()
    }

    /// Changes production behind everybody's back; `None` takes the resource away.
    pub fn tamper(&self, id: &AssetId, payload: Option<&str>) {
        let mut state = self.state();
        match payload {
            Some(payload) => state.payloads.insert(id.clone(), payload.to_owned()),
            None => state.payloads.remove(id),
        };
    }

    /// How many pushes changed something.
    pub fn effective_pushes(&self) -> u64 {
        self.state().pushes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn admit(&mut self, id: &AssetId, token: FencingToken, run: Run) -> Result<(), PluginError> {
        // A plan: it never fences, and is never fenced.
        if token == FencingToken(0) {
            return Ok(());
        }
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

    fn compare(&self, asset: &Asset) -> Diff {
        let there = self.payloads.get(asset.id_str());
        if there.is_some_and(|there| there == asset.payload_json()) {
            return Diff::in_sync();
        }
        let field = FieldChange::new("payload", there.cloned(), asset.payload_json());
        let change = Change::new(asset, "replace it", vec![field], Effects::default());
        Diff::Differs {
            change: Box::new(change),
            observed: Observed::default(),
        }
    }
}

#[async_trait]
impl AssetPlugin for InMemoryProduction {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, PluginError> {
        let asset = request.reader.asset(&request.asset)?;
        let mut state = self.state();
        state.admit(&request.asset, request.token, request.run)?;
        Ok(state.compare(&asset))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, PluginError> {
        let asset = request.reader.asset(&request.asset)?;
        let mut state = self.state();
        state.admit(&request.asset, request.token, request.run)?;
        let before = state
            .payloads
            .insert(request.asset, asset.payload_json().to_owned());
        if before.as_deref() != Some(asset.payload_json()) {
            state.pushes += 1;
        }
        Ok(Pushed::Done)
    }
}

#[async_trait]
impl Turndown for InMemoryProduction {
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, PluginError> {
        let mut state = self.state();
        state.admit(&request.asset, request.token, request.run)?;
        if state.payloads.remove(&request.asset).is_some() {
            state.pushes += 1;
        }
        Ok(Pushed::Done)
    }
}
