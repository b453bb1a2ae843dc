//! Checks renames: the old id of a renamed asset is free, and only one asset continues it.

use std::collections::BTreeMap;

use plugin_sdk::{Candidate, Problem, Problems, Validator};
use prodspec_model::{Asset, AssetId, Message, addons::Moved};

/// Refuses renames ([`Moved`]) that are not of one asset to one new id: the old id is still in intent, several assets had
/// the same old id, the type changes, or the new id is one that another asset had before.
///
/// An old id that no asset had lately is accepted: the addon stays in the sources after the rename.
#[derive(Debug, Clone, Copy)]
pub struct Moves;

impl Validator for Moves {
    fn name(&self) -> &str {
        "moves"
    }

    fn validate_incarnation(&self, candidate: &Candidate, problems: &mut Problems) {
        for (asset, from) in renames(candidate).into_values() {
            if from.as_str() == asset.id_str() {
                // It refers to itself, which `References` reports.
                continue;
            }
            if let Some(message) = wrong(candidate, &asset, &from) {
                let field = format!("addons.{}.from", Moved::TYPE);
                problems.push(Problem::with(&asset, message).field(field));
            }
        }
    }
}

/// The renames that the change concerns, by new id, each with the old id: of changed assets, of assets whose old id came
/// into intent, and of those that have the same old id as one of these.
fn renames(candidate: &Candidate) -> BTreeMap<AssetId, (Asset, AssetId)> {
    let mut renames = BTreeMap::new();
    let mut old = Vec::new();
    for change in candidate.changes.iter() {
        let Some(after) = &change.after else { continue };
        old.extend(Moved::source_of(after));
        // Without a parent, all renames are of changed assets.
        if change.before.is_none() && candidate.parent.is_some() {
            old.push(after.id());
        }
    }
    for from in old {
        for asset in Moved::successors(&candidate.snapshot, from.as_str()) {
            renames.insert(asset.id(), (asset, from.clone()));
        }
    }
    renames
}

/// Why the rename of `from` to `asset` is refused. `None`: it is not.
fn wrong(candidate: &Candidate, asset: &Asset, from: &AssetId) -> Option<String> {
    if let Some(there) = candidate.snapshot.get(from.as_str()) {
        let why = match Moved::source_of(&there) {
            Some(_) => "which is renamed itself; rename one after the other, in an edit each",
            None => {
                "which is still in intent; remove that asset, or the addon if the rename is done"
            }
        };
        return Some(format!("is moved from `{from}`, {why}"));
    }
    let successors = Moved::successors(&candidate.snapshot, from.as_str());
    if let Some(other) = successors
        .iter()
        .find(|other| other.id_str() != asset.id_str())
    {
        return Some(format!(
            "is moved from `{from}`, and so is `{}`; an asset has one new id: remove the addon of all but one",
            other.id_str()
        ));
    }
    let parent = candidate.parent.as_ref()?.snapshot();
    let before = parent.get(from.as_str())?;
    if before.type_str() != asset.type_str() {
        return Some(format!(
            "is moved from `{from}`, which has the type {}; a rename keeps the type: remove the addon, and turn \
             `{from}` down",
            before.type_str()
        ));
    }
    parent.get(asset.id_str()).map(|_| {
        format!(
            "is moved from `{from}`, but has been in intent beside it; an asset moves to a new id: remove the addon, \
             and turn `{from}` down"
        )
    })
}
