//! Validators: what must hold of intent before it is sealed.

use std::sync::Arc;

use async_trait::async_trait;
use prodspec_model::{Asset, AssetId, Digest, Incarnation, Snapshot, snapshot::Change};

use crate::{
    asset_type::{AssetTypes, Capacity},
    error::BoxError,
    problem::{Problem, Problems},
};

/// One asset of a candidate, with what it refers to and what refers to it: all that a verdict on it may rest on.
#[derive(Debug)]
pub struct AssetView<'a> {
    asset: &'a Asset,
    references: Vec<AssetId>,
    snapshot: &'a Snapshot,
    types: &'a AssetTypes,
    incomplete: bool,
}

impl<'a> AssetView<'a> {
    /// Looks at `asset` in `snapshot`.
    pub fn new(asset: &'a Asset, snapshot: &'a Snapshot, types: &'a AssetTypes) -> Self {
        Self {
            references: asset.references(),
            asset,
            snapshot,
            types,
            incomplete: false,
        }
    }

    /// The same, where a generator failed and others may be missing.
    #[must_use]
    pub fn incomplete(mut self) -> Self {
        self.incomplete = true;
        self
    }

    /// Whether a generator failed: an asset that is not there is no problem then, the failure is.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// The asset.
    pub fn asset(&self) -> &'a Asset {
        self.asset
    }

    /// The ids it refers to, sorted.
    pub fn references(&self) -> &[AssetId] {
        &self.references
    }

    /// An asset it refers to. `None` if it does not refer to it, or it is not there.
    pub fn get(&self, id: &AssetId) -> Option<Asset> {
        self.references
            .binary_search(id)
            .ok()
            .and_then(|_| self.snapshot.get(id.as_str()))
    }

    /// The assets that refer to it, by id.
    pub fn referrers(&self) -> impl Iterator<Item = Asset> + '_ {
        self.snapshot
            .referrers(self.asset.id_str())
            .into_iter()
            .filter_map(|id| self.snapshot.get(id.as_str()))
    }

    /// What is known of types.
    pub fn types(&self) -> &'a AssetTypes {
        self.types
    }

    /// The capacity that an asset intends; `None` when its type declares none.
    pub fn capacity(&self, asset: &Asset) -> Option<Capacity> {
        self.types.capacity(asset)
    }

    /// Something is wrong with the asset.
    pub fn problem(&self, message: impl std::fmt::Display) -> Problem {
        Problem::with(self.asset, message)
    }
}

/// Intent that would become the next incarnation. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The incarnation in force.
    pub parent: Option<Incarnation>,
    /// All assets.
    pub snapshot: Snapshot,
    /// The digest of all assets.
    pub digest: Digest,
    /// What differs from the parent, by id.
    pub changes: Arc<[Change]>,
    /// What is known of types.
    pub types: Arc<AssetTypes>,
}

impl Candidate {
    /// Names this very change: the parent's content and the result's. What an override must name.
    pub fn change_digest(&self) -> Digest {
        let parent = self
            .parent
            .as_ref()
            .map_or(Digest([0; 32]), |parent| parent.header().digest);
        Digest::of(&[parent.0, self.digest.0].concat())
    }
}

/// Says whether intent makes sense. Pure. Both methods see every candidate; either may do nothing.
///
/// Assets are looked at again when they, what they refer to or what refers to them changed.
///
/// ```
/// use plugin_sdk::{AssetView, Problems, Validator};
/// use prodspec_model::{Message, addons::Owner};
///
/// /// Everything has an owner.
/// struct Owned;
///
/// impl Validator for Owned {
///     fn name(&self) -> &str {
///         "owned"
///     }
///     fn asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
///         if !view.asset().has_addon(Owner::TYPE) {
///             problems.push(view.problem("has no owner; add the addon prodspec.v1.Owner"));
///         }
///     }
/// }
/// ```
pub trait Validator: Send + Sync + 'static {
    /// Its name: stands in problems.
    fn name(&self) -> &str;

    /// Looks at one asset.
    fn asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let _ = (view, problems);
    }

    /// Looks at the whole, or at what changed of it. Asked only when every source was read and every generator ran.
    fn incarnation(&self, candidate: &Candidate, problems: &mut Problems) {
        let _ = (candidate, problems);
    }
}

/// Asks somebody outside whether intent makes sense. No answer in time means no.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{BoxError, Candidate, ExternalValidator, Problem, Problems};
///
/// /// Asks the capacity team's service.
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
    /// Its name: stands in problems, and in overrides.
    fn name(&self) -> &str;

    /// Looks at a candidate that every other validator has passed.
    ///
    /// # Errors
    /// When it cannot say: the candidate is not valid then.
    async fn validate(&self, candidate: Candidate) -> Result<Problems, BoxError>;
}
