//! A policy, ready to check: the assets that it is about, and the check that it is.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use plugin_sdk::{Cause, CheckPlugin, CheckRequest, Problem, SignalSource, Signals, Sources};
use prodspec_model::{
    Asset, AssetId, Digest, Filter, Message,
    addons::Turndown,
    policy::{
        AlertPolicy, ApprovalPolicy, BlastRadiusPolicy, CalendarPolicy, CapacityPolicy, Exception,
        FreezePolicy, OverloadPolicy, RatePolicy,
    },
};

use crate::cache::Cache;

/// A policy that is a check: the payload of a modelled-only asset.
pub trait CheckPolicy: Message + Send + Sync + 'static {
    /// The assets that the policy is about, before exceptions.
    fn of(&self) -> &Filter;

    /// The exceptions from the policy.
    fn except(&self) -> &[Exception];

    /// Whether a push of the assets waits while the policy cannot check.
    fn holds_unread(request: &CheckRequest) -> bool {
        request.cause == Cause::Intent
    }

    /// The check that the policy is, under a name.
    ///
    /// # Errors
    /// The fields that are wrong, each with the reason.
    fn check(&self, name: &str, readers: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>>;
}

/// A field of a policy that is wrong, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Path of the field in the payload, such as `except[0].until`.
    pub field: String,
    /// The reason, and how to correct it.
    pub why: String,
}

impl Refused {
    pub(super) fn new(field: impl Into<String>, why: impl ToString) -> Self {
        let (field, why) = (field.into(), why.to_string());
        Self { field, why }
    }

    pub(super) fn one(field: &str, why: impl ToString) -> Vec<Self> {
        vec![Self::new(field, why)]
    }
}

impl From<(&str, Problem)> for Refused {
    fn from((field, problem): (&str, Problem)) -> Self {
        Self::new(field, problem.message)
    }
}

/// The sources that policies name, each read once for all policies.
#[derive(Clone, Default)]
pub struct Readers {
    pub(super) sources: Sources,
    signals: BTreeMap<Arc<str>, Arc<Cache<dyn SignalSource, Signals>>>,
}

impl Readers {
    /// Makes readers of these sources.
    pub fn of(sources: &Sources) -> Self {
        let cache =
            |source: &Arc<dyn SignalSource>| Arc::new(Cache::new(Box::new(source.clone()) as _));
        let signals = sources.all_signals();
        Self {
            signals: signals
                .map(|(name, source)| (name.clone(), cache(source)))
                .collect(),
            sources: sources.clone(),
        }
    }

    /// The alerts of the source with a name, or of the only one.
    pub(super) fn signals(
        &self,
        name: Option<&str>,
    ) -> Result<Arc<Cache<dyn SignalSource, Signals>>, String> {
        let (name, _) = self.sources.signal(name)?;
        Ok(self.signals[name].clone())
    }
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.sources.fmt(f)
    }
}

/// A policy that can check, or that must hold back its assets.
pub(super) struct Compiled {
    of: Filter,
    except: Vec<Exception>,
    pub(super) name: Arc<str>,
    pub(super) digest: Digest,
    /// `Err`: the reason why it cannot check.
    pub(super) check: Result<Arc<dyn CheckPlugin>, String>,
    /// Whether a push waits if it cannot.
    pub(super) holds_unread: fn(&CheckRequest) -> bool,
}

impl Compiled {
    /// Whether the policy is about an asset at a time.
    pub(super) fn is_about(&self, asset: &Asset, now: Timestamp) -> bool {
        let id = asset.id();
        self.of.matches(asset) && !self.except.iter().any(|it| it.holds(&id, now))
    }

    /// The next time from which an exception will hold for an asset.
    pub(super) fn exempt_from(&self, asset: &Asset, now: Timestamp) -> Option<Timestamp> {
        let id = asset.id();
        let to_come = self
            .except
            .iter()
            .filter(|it| it.from > now && it.assets.contains(&id));
        to_come.map(|it| it.from).min()
    }
}

/// Reads the policy of an asset. `None`: the asset is no policy, or is being turned down.
pub(super) fn compile(name: &str, asset: &Asset, readers: &Readers) -> Option<Compiled> {
    if asset.has_addon(Turndown::TYPE) {
        return None;
    }
    let read = match asset.type_str() {
        AlertPolicy::TYPE => read::<AlertPolicy>,
        ApprovalPolicy::TYPE => read::<ApprovalPolicy>,
        BlastRadiusPolicy::TYPE => read::<BlastRadiusPolicy>,
        CalendarPolicy::TYPE => read::<CalendarPolicy>,
        CapacityPolicy::TYPE => read::<CapacityPolicy>,
        FreezePolicy::TYPE => read::<FreezePolicy>,
        OverloadPolicy::TYPE => read::<OverloadPolicy>,
        RatePolicy::TYPE => read::<RatePolicy>,
        _ => return None,
    };
    Some(read(&format!("{name}/{}", asset.id()), asset, readers))
}

fn read<P: CheckPolicy>(name: &str, asset: &Asset, readers: &Readers) -> Compiled {
    let name: Arc<str> = name.into();
    let policy: P = match asset.payload() {
        Ok(policy) => policy,
        // Then it may be about anything.
        Err(error) => {
            return Compiled {
                of: Filter::default(),
                except: Vec::new(),
                name,
                digest: asset.digest(),
                check: Err(error.to_string()),
                holds_unread: P::holds_unread,
            };
        }
    };
    let check = policy.check(&name, readers).map_err(|wrong| {
        let all = wrong.iter().map(|it| format!("{}: {}", it.field, it.why));
        all.collect::<Vec<_>>().join("; ")
    });
    Compiled {
        of: policy.of().clone(),
        except: policy.except().to_vec(),
        name,
        digest: asset.digest(),
        check,
        holds_unread: P::holds_unread,
    }
}

/// The policies of an incarnation, by id.
pub(super) type All = BTreeMap<AssetId, Arc<Compiled>>;
