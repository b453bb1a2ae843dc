//! Validators: conditions that intent must meet before it is sealed.

use std::sync::Arc;

use async_trait::async_trait;
use prodspec_model::{Digest, Incarnation, Snapshot, snapshot::Change};

use crate::{
    asset_type::{AssetTypes, AssetView},
    error::BoxError,
    problem::Problems,
};

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
