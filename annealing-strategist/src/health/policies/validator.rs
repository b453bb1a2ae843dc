//! [`Policies`], the validator: judges by the policies of the newest incarnation.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::{future::join_all, lock::Mutex};
use plugin_sdk::{BoxError, Finding, Health, HealthRequest, HealthValidator, Judgement, Sources};
use prodspec_model::{
    Asset, AssetId, Digest, Message, Snapshot, addons::Turndown, policy::HealthPolicy,
    snapshot::OfType,
};

use super::{
    compiled::{Compiled, Memory},
    sources::Readers,
};

/// A validator by the policies in intent. Its rules are listed in the [module](super).
#[derive(Clone)]
pub struct Policies {
    sources: Arc<Readers>,
    newest: Arc<Mutex<Newest>>,
    memory: Arc<Memory>,
}

/// The policies of the newest incarnation.
struct Newest {
    read: OfType<Read>,
    compiled: Arc<[(AssetId, Ready)]>,
}

/// A policy as it was read. `Err`: the reason why that failed.
type Read = Result<(HealthPolicy, Digest), String>;
/// A policy that can judge. `Err`: the reason why it cannot.
type Ready = Result<Compiled, String>;

impl Policies {
    /// Makes a validator of policies that name these sources.
    pub fn over(sources: &Sources) -> Self {
        let newest = Newest {
            read: OfType::new(&[HealthPolicy::TYPE], read),
            compiled: Arc::default(),
        };
        Self {
            sources: Arc::new(Readers::of(sources)),
            newest: Arc::new(Mutex::new(newest)),
            memory: Arc::default(),
        }
    }

    async fn newest(&self, snapshot: &Snapshot) -> Arc<[(AssetId, Ready)]> {
        let mut newest = self.newest.lock().await;
        newest.follow(snapshot, &self.sources);
        newest.compiled.clone()
    }
}

impl Newest {
    fn follow(&mut self, snapshot: &Snapshot, sources: &Readers) {
        if self.read.follow(snapshot) {
            let ready = self.read.iter().map(|(id, read)| {
                let ready = read.clone().and_then(|it| Compiled::new(id, it, sources));
                (id.clone(), ready)
            });
            self.compiled = ready.collect();
        }
    }
}

/// Reads a policy. One that is being turned down judges nothing.
fn read(asset: Asset) -> Option<Read> {
    if asset.has_addon(Turndown::TYPE) {
        return None;
    }
    let policy = asset.payload::<HealthPolicy>();
    Some(match policy {
        Ok(policy) => Ok((policy, asset.digest())),
        Err(error) => Err(error.to_string()),
    })
}

#[async_trait]
impl HealthValidator for Policies {
    fn name(&self) -> Arc<str> {
        "policies".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let mut health = request.healthy();
        let Some(newest) = request.newest.bound_to() else {
            return Ok(health);
        };
        let all = self.newest(newest.snapshot()).await;
        // At the same time: a source that is slow delays the others' answers by no more than its own.
        let verdicts = all.iter().map(async |(id, ready)| match ready {
            Ok(policy) => policy.verdict(&request, &self.memory).await,
            Err(why) => {
                let why = format!("the policy {id} judges nothing: {why}");
                Some(Health::found(
                    request.now,
                    Finding::new(Judgement::Unknown, why),
                ))
            }
        });
        for verdict in join_all(verdicts).await {
            health = verdict.into_iter().fold(health, Health::join);
        }
        Ok(health)
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies").finish_non_exhaustive()
    }
}
