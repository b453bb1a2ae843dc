//! The edit that a program asks for.

use std::collections::BTreeSet;

use control_plane_store::BatchId;
use plugin_sdk::{By, ChangeId, FieldEdit, Holder};
use prodspec_model::{
    Asset, AssetId, Message as _, SourceName, addons::Turndown, snapshot::Change,
};

use super::EditRefused;

/// Number of assets that an edit may change by default.
const BLAST_RADIUS: usize = 100;
/// Maximum number of fields in one edit.
const MOST_FIELDS: usize = 1000;
/// Maximum length of all fields of one edit as JSON, in bytes.
const MOST_BYTES: usize = 256 << 10;

/// An edit of fields of one source, by a program.
///
/// ```
/// use control_plane::{By, SourceEdit};
/// use control_plane::sdk::FieldEdit;
///
/// let by = By::new("autoscaler", "the load has doubled");
/// let path = r#"clusters[name="eu"].replicas"#.parse()?;
/// let replicas = FieldEdit::set("manifest.yaml#0", path, 3, 6);
/// let edit = SourceEdit::new("manifest.yaml", by).field(replicas).held_by("autoscaler");
/// # Ok::<(), control_plane::sdk::document::PathError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct SourceEdit {
    pub(super) source: String,
    pub(super) id: ChangeId,
    pub(super) by: By,
    pub(super) fields: Vec<FieldEdit>,
    pub(super) holder: Option<Holder>,
    pub(super) blast_radius: usize,
    turndown: bool,
    only: Option<BTreeSet<AssetId>>,
}

impl SourceEdit {
    /// An edit of the source named `source`, without a field yet. It has a new random id.
    pub fn new(source: &str, by: By) -> Self {
        Self {
            source: source.to_owned(),
            id: BatchId::fresh().0.into(),
            by,
            fields: Vec::new(),
            holder: None,
            blast_radius: BLAST_RADIUS,
            turndown: true,
            only: None,
        }
    }

    /// Adds the edit of one field.
    pub fn field(mut self, edit: FieldEdit) -> Self {
        self.fields.push(edit);
        self
    }

    /// Adds the edits of several fields.
    pub fn fields(mut self, edits: impl IntoIterator<Item = FieldEdit>) -> Self {
        self.fields.extend(edits);
        self
    }

    /// Sets the id. A program that may die gives each edit an id that it finds again, such as the name of its step: the same
    /// edit under the same id is made once.
    pub fn id(mut self, id: ChangeId) -> Self {
        self.id = id;
        self
    }

    /// Sets the program that holds the fields afterwards, until it releases them: no other program may set them. Their paths
    /// name items of lists by a field, as in `clusters[name="eu"].replicas`, never by an index, which is another item's after
    /// the next insertion. Without a holder, another edit may follow at once.
    pub fn held_by(mut self, holder: impl Into<Holder>) -> Self {
        self.holder = Some(holder.into());
        self
    }

    /// Sets how many assets the edit may change. By default 100.
    pub fn blast_radius(mut self, assets: usize) -> Self {
        self.blast_radius = assets;
        self
    }

    /// Sets whether the edit may give assets the addon [`Turndown`], so that their resources are removed. By default it may.
    /// A trial of an edit that may not is refused also for what others have turned down since the last incarnation.
    pub fn turndown(mut self, may: bool) -> Self {
        self.turndown = may;
        self
    }

    /// Sets the assets that the edit may change. By default any.
    pub fn only(mut self, assets: BTreeSet<AssetId>) -> Self {
        self.only = Some(assets);
        self
    }

    /// Whether the edit is refused for some of the assets that it changes.
    pub(super) fn is_confined(&self) -> bool {
        !self.turndown || self.only.is_some()
    }

    /// # Errors
    /// When `changes` are of another asset than those that the edit may change.
    pub(super) fn check_assets(&self, changes: &[Change]) -> Result<(), EditRefused> {
        let Some(only) = &self.only else {
            return Ok(());
        };
        let other = changes.iter().map(Change::id).find(|id| !only.contains(id));
        other.map_or(Ok(()), |id| Err(EditRefused::OtherAsset(id)))
    }

    /// # Errors
    /// When `changes` turn down an asset, and the edit may not.
    pub(super) fn check_turndown(&self, changes: &[Change]) -> Result<(), EditRefused> {
        let down = |asset: &Option<Asset>| {
            let asset = asset.as_ref();
            asset.is_some_and(|asset| asset.has_addon(Turndown::TYPE))
        };
        let mut changes = changes.iter();
        let turned_down = changes.find(|change| !down(&change.before) && down(&change.after));
        match turned_down {
            Some(change) if !self.turndown => Err(EditRefused::Turndown(change.id())),
            _ => Ok(()),
        }
    }

    /// The name of the source that is edited.
    pub(crate) fn source(&self) -> SourceName {
        SourceName(self.source.as_str().into())
    }

    /// # Errors
    /// When the edit is over a limit, or its program would hold an item by its index.
    pub(super) fn check(&self) -> Result<(), EditRefused> {
        let counted = self.fields.iter().find(|edit| edit.path.has_index());
        if let Some(edit) = counted.filter(|_| self.holder.is_some()) {
            return Err(EditRefused::ByIndex(edit.path.clone()));
        }
        if self.fields.len() > MOST_FIELDS {
            return Err(EditRefused::TooLarge {
                what: format!("{} fields", self.fields.len()),
                limit: MOST_FIELDS,
            });
        }
        let bytes = serde_json::to_string(&self.fields).map_or(0, |json| json.len());
        match bytes > MOST_BYTES {
            false => Ok(()),
            true => Err(EditRefused::TooLarge {
                what: format!("{bytes} bytes"),
                limit: MOST_BYTES,
            }),
        }
    }
}
