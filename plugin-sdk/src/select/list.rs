//! The targets of a rollout as one shared list, with summaries that all layers of a policy share.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Census, Domains, Progress, Target};

/// The targets of a rollout, sorted by id. Cheap to clone; it dereferences to a slice of [`Target`].
///
/// The list keeps two summaries, [`domains`](Self::domains) and [`census`](Self::census). The first layer that asks for
/// one computes it, and the other layers read it, so that a policy of many layers reads the targets once.
///
/// ```
/// use plugin_sdk::{Progress, TargetList, testing::{NOW, target}};
///
/// let mut targets: TargetList = [target("job/eu", &["eu"]), target("job/us", &["us"])].into();
/// assert_eq!(targets.census().waiting(), [0, 1]);
/// targets.edit()[0].progress = Progress::Updated { at: NOW };
/// assert_eq!(targets.census().waiting(), [1]);
/// ```
#[derive(Clone, Default)]
pub struct TargetList(Arc<Shared>);

#[derive(Default)]
struct Shared {
    all: Vec<Target>,
    domains: OnceLock<Arc<Domains>>,
    census: OnceLock<Census>,
}

impl Clone for Shared {
    /// Clones what stays the same when the progress of a target changes.
    fn clone(&self) -> Self {
        Self {
            all: self.all.clone(),
            domains: self.domains.clone(),
            census: OnceLock::new(),
        }
    }
}

impl TargetList {
    /// Returns the failure domains of the targets.
    pub fn domains(&self) -> &Domains {
        let all = || Arc::new(Domains::of(&self.0.all));
        self.0.domains.get_or_init(all)
    }

    /// Returns the counts of the targets by progress and failure domain.
    pub fn census(&self) -> &Census {
        let all = || Census::of(&self.0.all, self.domains());
        self.0.census.get_or_init(all)
    }

    /// Returns the targets to change them. They have to stay sorted by id. Other clones of this list do not change.
    pub fn edit(&mut self) -> &mut Vec<Target> {
        let shared = self.progress_changes();
        shared.domains.take();
        &mut shared.all
    }

    /// Sets the progress of the target at an index. Returns its former progress. `None`: there is no such target.
    ///
    /// Costs less than [`edit`](Self::edit): the summary of the domains stays valid.
    pub fn set_progress(&mut self, index: usize, progress: Progress) -> Option<Progress> {
        let target = self.progress_changes().all.get_mut(index)?;
        Some(std::mem::replace(&mut target.progress, progress))
    }

    /// Sets the [`order`](Target::order) of the target at an index, if there is one.
    pub fn set_order(&mut self, index: usize, order: u64) {
        if let Some(target) = self.progress_changes().all.get_mut(index) {
            target.order = order;
        }
    }

    fn progress_changes(&mut self) -> &mut Shared {
        let shared = Arc::make_mut(&mut self.0);
        shared.census.take();
        shared
    }
}

impl Deref for TargetList {
    type Target = [Target];

    fn deref(&self) -> &[Target] {
        &self.0.all
    }
}

impl From<Vec<Target>> for TargetList {
    fn from(all: Vec<Target>) -> Self {
        Self(Arc::new(Shared {
            all,
            ..Shared::default()
        }))
    }
}

impl<const N: usize> From<[Target; N]> for TargetList {
    fn from(all: [Target; N]) -> Self {
        Vec::from(all).into()
    }
}

impl FromIterator<Target> for TargetList {
    fn from_iter<I: IntoIterator<Item = Target>>(all: I) -> Self {
        all.into_iter().collect::<Vec<_>>().into()
    }
}

impl PartialEq for TargetList {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for TargetList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for TargetList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.all.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TargetList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}
