//! Targets, requests and a fake validator for tests of policies and health.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::{AssetId, IncarnationId, IncarnationNo, PartitionId};
use serde_json::Value;

use super::NOW;
use crate::{
    Direction, Finding, Health, HealthRequest, HealthValidator, IncarnationReader, Judgement,
    Progress, RolloutId, SelectRequest, Target, Watched, error::BoxError,
};

#[allow(clippy::expect_used, reason = "a test's constant is wrong: stop there")]
fn id(id: &str) -> AssetId {
    AssetId::new(id).expect("an asset id")
}

#[allow(clippy::expect_used, reason = "the id is a constant")]
fn incarnation(no: u32) -> IncarnationId {
    let partition = PartitionId::new("test").expect("a partition id");
    IncarnationId::new(partition, IncarnationNo(no))
}

/// A target that waits, and can hurt `domains`.
///
/// # Panics
/// When `id` is no asset id.
pub fn target(id: &str, domains: &[&str]) -> Target {
    Target {
        asset: self::id(id),
        domains: domains.iter().map(|&domain| domain.into()).collect(),
        silent: false,
        order: 0,
        progress: Progress::Waiting,
    }
}

/// Which of `targets` may be updated now, from `test@1` to `test@2`, at [`super::NOW`]? Without a policy, and nothing
/// known of health: set the fields.
pub fn select_request(targets: impl IntoIterator<Item = Target>) -> SelectRequest {
    SelectRequest {
        rollout: RolloutId(1),
        policy_asset: id("policy/test"),
        policy: Arc::default(),
        from: Some(incarnation(1)),
        to: incarnation(2),
        direction: Direction::Forward,
        targets: Arc::new(targets.into_iter().collect()),
        health: None,
        promoted: None,
        now: NOW,
        reader: IncarnationReader::default(),
    }
}

/// Are `updated` well, which settled at [`super::NOW`]?
///
/// # Panics
/// When one of `updated` is no asset id.
pub fn health_request<'a>(updated: impl IntoIterator<Item = &'a str>) -> HealthRequest {
    HealthRequest {
        rollout: RolloutId(1),
        from: Some(incarnation(1)),
        to: incarnation(2),
        stage: None,
        policy: None,
        updated: updated
            .into_iter()
            .map(|asset| watched(asset, NOW))
            .collect(),
        under_way: Vec::new(),
        neighbours: Vec::new(),
        began: None,
        decisive: None,
        now: NOW,
        reader: IncarnationReader::default(),
    }
}

/// An asset whose signals matter since `since`.
///
/// # Panics
/// When `asset` is no asset id.
pub fn watched(asset: &str, since: Timestamp) -> Watched {
    Watched {
        asset: id(asset),
        since,
    }
}

/// A validator that finds what it was last told, and healthy before that. Clones share.
#[derive(Debug, Clone)]
pub struct FakeHealth {
    name: Arc<str>,
    says: Arc<Mutex<Option<Judgement>>>,
}

impl FakeHealth {
    /// A validator called `name`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            says: Arc::new(Mutex::new(Some(Judgement::Healthy))),
        }
    }

    /// From now on it finds this.
    pub fn says(&self, judgement: Judgement) {
        *self.says.lock().unwrap_or_else(PoisonError::into_inner) = Some(judgement);
    }

    /// From now on it fails.
    pub fn fails(&self) {
        *self.says.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[async_trait]
impl HealthValidator for FakeHealth {
    fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let says = *self.says.lock().unwrap_or_else(PoisonError::into_inner);
        let judgement = says.ok_or("it was told to fail")?;
        let finding = Finding {
            validator: self.name.clone(),
            judgement,
            summary: format!("{judgement:?}").to_lowercase(),
            evidence: Value::Null,
        };
        Ok(Health::found(request.now, finding))
    }
}
