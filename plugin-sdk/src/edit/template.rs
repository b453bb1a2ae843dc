//! Where a source has the fields of a change, for types whose entries do not have them.

use prodspec_model::rollout::RollOut;

use super::FieldEdit;
use crate::{AssetView, Problem};

/// Says where a source has the values of a change, for assets whose entry does not have them: the field has another name
/// there, or is in another part of the document. A closure is one.
///
/// ```
/// use plugin_sdk::{AssetView, EditTemplate, FieldEdit, Problem};
/// use prodspec_model::rollout::RollOut;
///
/// /// The versions are in a map of their own: `versions.eu`.
/// fn versions(target: &AssetView<'_>, change: &RollOut) -> Result<Vec<FieldEdit>, Problem> {
///     let version = change.set.get("version");
///     let version = version.ok_or_else(|| Problem::new("only `version` can be rolled out"))?;
///     let cluster = target.asset().id_str().trim_start_matches("job/").to_owned();
///     let path = format!("versions.{cluster}").parse().map_err(Problem::new)?;
///     Ok(vec![FieldEdit::add("manifest.yaml#0", path, version.clone())])
/// }
///
/// fn is_a_template(_: impl EditTemplate) {}
/// is_a_template(versions);
/// ```
pub trait EditTemplate: Send + Sync + 'static {
    /// Returns the fields that `change` sets for `target`, an asset of the incarnation in force, with their new values. The
    /// values before are read from the source. Depends on its parameters only.
    ///
    /// # Errors
    /// The reason why the change cannot be made for this target. The change does not begin.
    fn edits(&self, target: &AssetView<'_>, change: &RollOut) -> Result<Vec<FieldEdit>, Problem>;
}

impl<F> EditTemplate for F
where
    F: Fn(&AssetView<'_>, &RollOut) -> Result<Vec<FieldEdit>, Problem> + Send + Sync + 'static,
{
    fn edits(&self, target: &AssetView<'_>, change: &RollOut) -> Result<Vec<FieldEdit>, Problem> {
        self(target, change)
    }
}
