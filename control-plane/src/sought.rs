//! Where the sources have the fields of a change.

use std::collections::BTreeMap;

use control_plane_runtime::Runtime;
use plugin_sdk::{AssetView, FieldEdit, FieldPath, Reading};
use prodspec_model::{Asset, AssetId, SourceName, rollout::RollOut};
use serde_json::Value;

use crate::{
    RollOutRefused, desk,
    handle::{Error, Handle},
};

/// The fields of the targets, as they are before the change.
pub(crate) struct Sought {
    pub(crate) source: SourceName,
    /// The fields of each target that do not have their values yet.
    pub(crate) fields: BTreeMap<AssetId, Vec<FieldEdit>>,
}

/// Finds the fields of the targets that do not have their values yet.
pub(crate) async fn sought<R: Runtime>(
    handle: &Handle<R>,
    change: &RollOut,
    targets: &[Asset],
) -> Result<Sought, Error> {
    let (source, mut fields) = found(handle, change, targets).await?;
    for edits in fields.values_mut() {
        edits.retain(|edit| edit.was != edit.to);
    }
    fields.retain(|_, edits| !edits.is_empty());
    Ok(Sought { source, fields })
}

/// Finds the fields of the targets in their source, by where they are made from today, or by the edit template of their type.
pub(crate) async fn found<R: Runtime>(
    handle: &Handle<R>,
    change: &RollOut,
    targets: &[Asset],
) -> Result<(SourceName, BTreeMap<AssetId, Vec<FieldEdit>>), Error> {
    let latest = handle.latest().await?;
    let mut wanted: Vec<(AssetId, SourceName, Vec<FieldEdit>)> = Vec::new();
    for target in targets {
        let id = target.id();
        let (source, edits) = match handle.shared.templates.get(target.type_str()) {
            Some((source, template)) => {
                let types = handle.shared.pipeline.types();
                let view = AssetView::new(target, latest.snapshot(), types);
                let edits = template.edits(&view, change);
                let edits =
                    edits.map_err(|why| RollOutRefused::Template(id.clone(), why.into()))?;
                if edits.is_empty() {
                    return Err(RollOutRefused::Unaffected(id).into());
                }
                (source.clone(), edits)
            }
            None => in_entry(handle, change, &id).await?,
        };
        if let Some((other, ..)) = wanted.first().filter(|(_, at, _)| *at != source) {
            return Err(RollOutRefused::TwoSources(other.clone(), id).into());
        }
        wanted.push((id, source, edits));
    }
    let Some((_, source, _)) = wanted.first().cloned() else {
        return Err(RollOutRefused::NoTarget.into());
    };
    let reading = handle.read_source(&source.0).await?;
    let mut fields = BTreeMap::new();
    for (asset, _, edits) in wanted {
        let edits = edits.into_iter().map(|edit| as_is(&reading, &asset, edit));
        let edits = edits.collect::<Result<_, _>>()?;
        fields.insert(asset, edits);
    }
    Ok((source, fields))
}

/// The source of a target, and its fields, relative to the entry that the target is made from.
async fn in_entry<R: Runtime>(
    handle: &Handle<R>,
    change: &RollOut,
    target: &AssetId,
) -> Result<(SourceName, Vec<FieldEdit>), Error> {
    let unknown = || RollOutRefused::NoEntry(target.clone());
    let trace = handle.generation().await?.trace(target).await;
    let from = trace.map(|trace| trace.provenance);
    let from = from.filter(|from| !from.source.is_empty() && !from.document.is_empty());
    let from = from.ok_or_else(unknown)?;
    let entry: FieldPath = from.path.parse().map_err(|_| unknown())?;
    let edit = |(field, to): (&String, &Value)| {
        let relative: FieldPath = field.parse().map_err(|error| {
            RollOutRefused::Malformed(format!("`{field}` is not a field: {error}"))
        })?;
        let path = entry.clone().join(&relative);
        Ok(FieldEdit::add(&from.document, path, to.clone()))
    };
    let edits = change.set.iter().map(edit);
    let edits: Result<_, RollOutRefused> = edits.collect();
    Ok((SourceName(from.source.as_str().into()), edits?))
}

/// The edit with the value that the field has in the source.
fn as_is(
    reading: &Reading,
    asset: &AssetId,
    mut edit: FieldEdit,
) -> Result<FieldEdit, RollOutRefused> {
    let refused = |why: &str| RollOutRefused::Field {
        asset: asset.clone(),
        path: edit.path.clone(),
        why: why.to_owned(),
    };
    let several = "several items of a list have the name by which it is found";
    let was = desk::value(reading, &edit).map_err(|_| refused(several))?;
    if was.is_none() {
        let parent = edit.path.split_last().map(|(parent, _)| parent);
        let above = FieldEdit {
            path: parent.unwrap_or_default(),
            ..edit.clone()
        };
        let there = desk::value(reading, &above).ok().flatten();
        if !there.is_some_and(|there| there.is_object()) {
            let why = "the entry that would have it is not there; add that first";
            return Err(refused(why));
        }
    }
    edit.was = was;
    Ok(edit)
}
