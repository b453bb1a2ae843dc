//! Targets, requests and a fake validator, for tests of policies and health.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::{AssetId, IncarnationId, IncarnationNo, PartitionId};

use super::NOW;
use crate::{
    Finding, Health, HealthRequest, HealthValidator, Judgement, Progress, RolloutId, SelectRequest,
    Target, Watched, error::BoxError,
};

#[allow(
    clippy::expect_used,
    reason = "a wrong constant in a test has to fail the test"
)]
fn id(id: &str) -> AssetId {
    AssetId::new(id).expect("an asset id")
}

#[allow(clippy::expect_used, reason = "the id is a constant")]
fn incarnation(no: u32) -> IncarnationId {
    let partition = PartitionId::new("test").expect("a partition id");
    IncarnationId::new(partition, IncarnationNo(no))
}

/// Makes a target that waits and can hurt `domains`.
///
/// # Panics
/// If `id` is not a valid asset id.
pub fn target(id: &str, domains: &[&str]) -> Target {
    Target {
        asset: self::id(id),
        domains: domains.iter().map(|&domain| domain.into()).collect(),
        silent: false,
        late: false,
        order: 0,
        progress: Progress::Waiting,
    }
}

/// Makes a selection request for `targets`, from `test@1` to `test@2`, at [`super::NOW`], with the default policy and
/// no health verdict. Set the fields for more.
pub fn select_request(targets: impl IntoIterator<Item = Target>) -> SelectRequest {
    let targets = targets.into_iter().collect();
    let to = incarnation(2);
    SelectRequest::new(RolloutId(1), id("policy/test"), to, targets, NOW).from(incarnation(1))
}

/// Makes a health request for the assets `updated`, which settled at [`super::NOW`].
///
/// # Panics
/// If one of `updated` is not a valid asset id.
pub fn health_request<'a>(updated: impl IntoIterator<Item = &'a str>) -> HealthRequest {
    let updated = updated.into_iter().map(|asset| watched(asset, NOW));
    HealthRequest::new(RolloutId(1), incarnation(2), NOW)
        .from(incarnation(1))
        .updated(updated.collect())
}

/// Makes a watched asset whose evidence counts from `since`.
///
/// # Panics
/// If `asset` is not a valid asset id.
pub fn watched(asset: &str, since: Timestamp) -> Watched {
    Watched::new(id(asset), since)
}

/// A fake validator that returns the judgement that was set last; healthy at first. Clones share the judgement.
#[derive(Debug, Clone)]
pub struct FakeHealth {
    name: Arc<str>,
    says: Arc<Mutex<Option<Judgement>>>,
}

impl FakeHealth {
    /// Makes a validator named `name`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            says: Arc::new(Mutex::new(Some(Judgement::Healthy))),
        }
    }

    /// Sets the judgement that the validator returns.
    pub fn says(&self, judgement: Judgement) {
        *self.says.lock().unwrap_or_else(PoisonError::into_inner) = Some(judgement);
    }

    /// Makes the validator fail from now on.
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
        let judgement = says.ok_or("the fake validator was told to fail")?;
        let finding = Finding::new(judgement, format!("{judgement:?}").to_lowercase())
            .validator(self.name.clone());
        Ok(Health::found(request.now, finding))
    }
}
