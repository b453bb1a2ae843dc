//! Validators: conditions that intent must meet before it is sealed.

use std::sync::Arc;

use async_trait::async_trait;
use prodspec_model::{Asset, AssetId, Digest, Incarnation, Snapshot, snapshot::Change};

use crate::{
    asset_type::{AssetTypes, Capacity},
    error::BoxError,
    problem::{Problem, Problems},
};

/// One asset of a candidate, with the assets that it refers to and the assets that refer to it. A validator's verdict
/// on the asset may rest on these only.
#[derive(Debug)]
pub struct AssetView<'a> {
    asset: &'a Asset,
    references: Vec<AssetId>,
    snapshot: &'a Snapshot,
    types: &'a AssetTypes,
    incomplete: bool,
}

impl<'a> AssetView<'a> {
    /// A view of `asset` in `snapshot`.
    pub fn new(asset: &'a Asset, snapshot: &'a Snapshot, types: &'a AssetTypes) -> Self {
        Self {
            references: asset.references(),
            asset,
            snapshot,
            types,
            incomplete: false,
        }
    }

    /// Marks the view as incomplete: a generator failed, so other assets may be missing.
    #[must_use]
    pub fn incomplete(mut self) -> Self {
        self.incomplete = true;
        self
    }

    /// Whether a generator failed. If so, do not report missing assets: the failure itself is the problem.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// The asset to be validated.
    pub fn asset(&self) -> &'a Asset {
        self.asset
    }

    /// Ids of the assets that the asset refers to, sorted.
    pub fn references(&self) -> &[AssetId] {
        &self.references
    }

    /// An asset that the asset refers to. `None`: it does not refer to `id`, or `id` does not exist.
    pub fn get(&self, id: &AssetId) -> Option<Asset> {
        self.references
            .binary_search(id)
            .ok()
            .and_then(|_| self.snapshot.get(id.as_str()))
    }

    /// The assets that refer to the asset, sorted by id.
    pub fn referrers(&self) -> impl Iterator<Item = Asset> + '_ {
        self.snapshot
            .referrers(self.asset.id_str())
            .into_iter()
            .filter_map(|id| self.snapshot.get(id.as_str()))
    }

    /// The asset types that the pipeline knows.
    pub fn types(&self) -> &'a AssetTypes {
        self.types
    }

    /// The capacity that an asset intends. `None`: its type declares no capacity.
    pub fn capacity(&self, asset: &Asset) -> Option<Capacity> {
        self.types.capacity(asset)
    }

    /// Makes a problem of the asset, with the place that the asset came from.
    pub fn problem(&self, message: impl std::fmt::Display) -> Problem {
        Problem::with(self.asset, message)
    }
}

/// Intent that would become the next incarnation. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The incarnation in force now. `None`: nothing was sealed yet.
    pub parent: Option<Incarnation>,
    /// All assets of the candidate.
    pub snapshot: Snapshot,
    /// Digest of all assets of the candidate.
    pub digest: Digest,
    /// Differences from the parent, sorted by id.
    pub changes: Arc<[Change]>,
    /// The asset types that the pipeline knows.
    pub types: Arc<AssetTypes>,
}

impl Candidate {
    /// Digest of this exact change, from the parent's content to the candidate's. An override of the change has to name
    /// it.
    pub fn change_digest(&self) -> Digest {
        let parent = self
            .parent
            .as_ref()
            .map_or(Digest([0; 32]), |parent| parent.header().digest);
        Digest::of(&[parent.0, self.digest.0].concat())
    }
}

/// Checks intent before it is sealed. Must be a pure function. Both methods are called for every candidate, and each
/// may do nothing.
///
/// An asset is validated again when it changes, or when an asset that it refers to, or that refers to it, changes.
///
/// ```
/// use plugin_sdk::{AssetView, Problems, Validator};
/// use prodspec_model::{Message, addons::Owner};
///
/// /// Every asset must have an owner.
/// struct Owned;
///
/// impl Validator for Owned {
///     fn name(&self) -> &str {
///         "owned"
///     }
///     fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
///         if !view.asset().has_addon(Owner::TYPE) {
///             problems.push(view.problem("has no owner; add the addon prodspec.v1.Owner"));
///         }
///     }
/// }
/// ```
pub trait Validator: Send + Sync + 'static {
    /// Name of the validator. Problems contain it.
    fn name(&self) -> &str;

    /// Validates one asset. Does nothing by default.
    fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let _ = (view, problems);
    }

    /// Validates the whole candidate, or its differences from the parent. Called only if every source was read and
    /// every generator succeeded. Does nothing by default.
    fn validate_incarnation(&self, candidate: &Candidate, problems: &mut Problems) {
        let _ = (candidate, problems);
    }
}

/// Asks an external system whether intent may be sealed. No answer before the deadline counts as no.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{BoxError, Candidate, ExternalValidator, Problem, Problems};
///
/// /// Asks the service of the capacity team.
/// struct CapacityBoard { limit: usize }
///
/// #[async_trait]
/// impl ExternalValidator for CapacityBoard {
///     fn name(&self) -> &str {
///         "capacity-board"
///     }
///     async fn validate(&self, candidate: Candidate) -> Result<Problems, BoxError> {
///         let mut problems = Problems::none();
///         if candidate.snapshot.len() > self.limit {
///             problems.push(Problem::new("more assets than the board agreed to"));
///         }
///         Ok(problems)
///     }
/// }
/// ```
#[async_trait]
pub trait ExternalValidator: Send + Sync + 'static {
    /// Name of the validator. Problems and overrides contain it.
    fn name(&self) -> &str;

    /// Validates a candidate that has passed all other validators.
    ///
    /// # Errors
    /// If it cannot decide. The candidate is not sealed then.
    async fn validate(&self, candidate: Candidate) -> Result<Problems, BoxError>;
}
