//! What the parts of one control plane share: its handles, generation, rollouts and retention all work on it.

use std::{collections::BTreeMap, sync::Arc};

use annealing_strategist::{Handle as Rollouts, Strategist};
use control_plane_store::{Store, incarnations::Incarnations};
use plugin_sdk::EditTemplate;
use prodspec_gen::Pipeline;
use prodspec_model::{AssetId, PartitionId, SourceName, goal::Goal};
use tokio::sync::{Notify, watch};

use crate::{desk::Desk, lanes::Lanes};

/// The edit templates by the types of assets, each with the source in which it edits.
pub(crate) type Templates = BTreeMap<Arc<str>, (SourceName, Arc<dyn EditTemplate>)>;

/// Data that the parts of one control plane share.
pub(crate) struct Shared<R> {
    pub(crate) runtime: R,
    pub(crate) partition: PartitionId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) incarnations: Arc<Incarnations<dyn Store>>,
    pub(crate) pipeline: Pipeline,
    pub(crate) strategist: Arc<Strategist<R>>,
    /// Number of newest incarnations that are kept.
    pub(crate) keep: usize,
    /// Handle to generation; `None` while this process does not own the partition.
    pub(crate) owned: watch::Sender<Option<prodspec_gen::Handle>>,
    /// The desk for edits of sources; `None` while this process does not own the partition.
    pub(crate) desk: watch::Sender<Option<Arc<Desk<R>>>>,
    pub(crate) lanes: Lanes<R>,
    /// Handle to rollouts; `None` while this process does not own the partition.
    pub(crate) rollouts: watch::Sender<Option<Rollouts<R>>>,
    /// Wakes the task of the trains after a command.
    pub(crate) trains: Notify,
    /// The goals in intent, as this owner knows them.
    pub(crate) goals: watch::Sender<BTreeMap<AssetId, Goal>>,
    /// The declared changes that have not begun, with the reasons, as this owner knows them.
    pub(crate) undone: watch::Sender<BTreeMap<AssetId, String>>,
    pub(crate) templates: Templates,
}
