//! Why an edit was not made.

use control_plane_store::records::HeldField;
use plugin_sdk::{BoxError, ChangeId, FieldPath, Problems};
use prodspec_model::AssetId;

/// The reason why an edit of a source was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditRefused {
    /// No source has this name.
    #[error("no source has the name `{0}`; use the name of one of the sources of the pipeline")]
    UnknownSource(String),
    /// The records of edits cannot be read or written.
    #[error("the store failed")]
    Store(#[source] BoxError),
    /// Programs cannot edit this source.
    #[error(
        "the source `{0}` cannot be edited by a program; add it with `.editable(...)` instead of `.source(...)`"
    )]
    NotEditable(String),
    /// Another program holds one of the fields.
    #[error(
        "`{}` in {} of {} is held by {} since {:.0}; edit it when that has ended, or ask for its end",
        .0.edit.path, .0.edit.document, .0.source.0, .0.holder, .0.at
    )]
    Held(Box<HeldField>),
    /// A program would hold a field of an item that is named by its index.
    #[error(
        "`{0}` counts the items of a list, and another item has that index after the next insertion; name the item by a field with a value of its own, as in `clusters[name=\"eu\"].replicas`"
    )]
    ByIndex(FieldPath),
    /// A program would hold a field of a document that is named by its place among others.
    #[error(
        "`{0}` counts the documents of a file, and another document has that place after the next insertion; give documents names of their own with `documents_named_by(..)`, or this one a file of its own"
    )]
    ByPlace(String),
    /// The edit does not fit the source, or the pipeline refuses its result.
    #[error("the edit is refused:\n{0}")]
    Refused(Problems),
    /// The sources are refused without the edit too, so nothing can be said of the edit.
    #[error(
        "the edit was not made, because the sources are refused without it too; mend them, and make it again:\n{0}"
    )]
    Elsewhere(Problems),
    /// The edit would change more assets than it may.
    #[error(
        "the edit would change {assets} assets, {allowed} are allowed; make a smaller edit, or allow more with `.blast_radius(...)`"
    )]
    BlastRadius {
        /// Number of assets that it would change.
        assets: usize,
        /// Number of assets that it may change.
        allowed: usize,
    },
    /// The edit would turn an asset down, and it may not.
    #[error(
        "the edit would turn down `{0}`, which it may not; declare the power `Turndown` with each function whose edits it makes, and with the operation or the machine, or leave the addon out"
    )]
    Turndown(AssetId),
    /// The edit would change an asset that it may not change.
    #[error(
        "the edit would change `{0}`, which is not one of the assets that it is for; make its generator use the field for those only, or name this asset, too"
    )]
    OtherAsset(AssetId),
    /// The edit has too many fields, or too long values.
    #[error("the edit has {what}, {limit} are allowed; make it in smaller pieces")]
    TooLarge {
        /// What the edit has too much of, with its number.
        what: String,
        /// The greatest number that is allowed.
        limit: usize,
    },
    /// The id was used for another edit.
    #[error("the id `{0}` was used for another edit; give each edit an id of its own")]
    IdUsed(ChangeId),
    /// The source changed during each attempt.
    #[error(
        "the source keeps changing, so the edit was not made after {0} attempts; make it again later"
    )]
    KeepsChanging(u32),
    /// The source or the store failed. Nothing was changed.
    #[error("the edit was not made, because the source failed; make it again later:\n{0}")]
    Failed(Problems),
    /// The edit may have been made.
    #[error(
        "the edit `{id}` may have been made; make it again under the same id to find out:\n{problems}"
    )]
    Unknown {
        /// The id of the edit.
        id: ChangeId,
        /// What failed, as the source says.
        problems: Problems,
    },
}

impl From<control_plane_store::Error> for EditRefused {
    fn from(error: control_plane_store::Error) -> Self {
        Self::Store(error.into())
    }
}
