//! Units: targets of a change that have a field in common, and how far they are on their way.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plugin_sdk::{FieldEdit, Mono, Pin, Standing, SyncState};
use prodspec_model::{Asset, AssetId, Digest};

use super::{intent::Intent, record::Stored};

/// Targets that have a field in common.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) edits: Vec<FieldEdit>,
    /// The targets, each with its pin. `None`: it has not moved.
    pub(super) assets: BTreeMap<AssetId, Option<Pin>>,
    pub(super) stage: Stage,
    /// Number of times that the fields were set or restored.
    pub(super) moves: u64,
    /// Time of the last of these. `None`: there was none.
    pub(super) moved_at: Option<Timestamp>,
    pub(super) contents: BTreeMap<AssetId, Contents>,
}

/// The contents that a target had.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    /// The last report.
    pub(super) standing: Option<Standing>,
    /// The content when the present move of its fields began.
    pub(super) before: Option<Digest>,
    /// The content when the look that is under way began.
    pub(super) looking: Option<Digest>,
    /// A content with which the fields are known to have their values: the edit made it, or they were looked up.
    pub(super) looked: Option<Digest>,
    /// The content when it was last found in sync. `None`: it was not yet.
    pub(super) in_sync: Option<Option<Digest>>,
}

/// How far a unit is on its way.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// No target has moved.
    Rest,
    /// An edit has to be made at this time. It is made alone if one together with others was refused.
    Due { at: Mono, alone: bool },
    /// The edit is being made.
    Editing { call: u64, alone: bool },
    /// Something else may have set a field, which has to be looked up at this time. `settled`: all targets were found in sync
    /// with the present edit before.
    Doubted { at: Mono, settled: bool },
    /// The fields are being looked up.
    Looking { call: u64, settled: bool },
    /// The edit was made, and its assets are waited for.
    Settling(u64),
    /// All targets were found in sync with it.
    Settled,
    /// Another program or a person has set a field: the unit is not the change's any more.
    Left,
}

impl Stage {
    /// Whether all targets were found in sync with the present edit.
    pub(super) fn is_settled(&self) -> bool {
        let doubted = |stage: &Self| match stage {
            Self::Doubted { settled, .. } | Self::Looking { settled, .. } => *settled,
            _ => false,
        };
        *self == Self::Settled || doubted(self)
    }
}

impl Unit {
    /// Whether the fields are to be as they were. `None`: no target has moved.
    pub(super) fn is_back(&self, intent: &Intent) -> Option<bool> {
        let pins = self.assets.values().flatten();
        let last = pins.map(|pin| intent.is_back(*pin));
        last.max()
    }

    pub(super) fn standing(
        &self,
        intent: &Intent,
        now: Timestamp,
        asset: &AssetId,
    ) -> Option<Standing> {
        let pin = (*self.assets.get(asset)?)?;
        let mut standing = intent.standing(asset, pin, false);
        standing.state = match self.stage {
            Stage::Settled => SyncState::InSync { since: now },
            _ => SyncState::out_of_sync(now),
        };
        Some(standing)
    }
}

/// The edit that sets a field, or restores it.
pub(super) fn directed(edit: &FieldEdit, back: bool) -> FieldEdit {
    let mut edit = edit.clone();
    if back {
        std::mem::swap(&mut edit.was, &mut edit.to);
    }
    edit
}

/// Finds which targets have fields in common.
pub(super) fn units(stored: &Stored) -> (Vec<Unit>, BTreeMap<AssetId, usize>) {
    let mut units: Vec<Unit> = Vec::new();
    let (mut by_field, mut of) = (BTreeMap::new(), BTreeMap::new());
    for (asset, target) in &stored.targets {
        let names: Vec<(String, &FieldEdit)> = target
            .edits
            .iter()
            .map(|edit| (format!("{} {}", edit.document, edit.path), edit))
            .collect();
        let known = names
            .iter()
            .find_map(|(name, _)| by_field.get(name).copied());
        let no = known.unwrap_or_else(|| {
            units.push(Unit {
                edits: Vec::new(),
                assets: BTreeMap::new(),
                stage: Stage::Rest,
                moves: 0,
                moved_at: None,
                contents: BTreeMap::new(),
            });
            units.len() - 1
        });
        for (name, edit) in names {
            if by_field.insert(name, no).is_none() {
                units[no].edits.push(edit.clone());
            }
        }
        units[no].assets.insert(asset.clone(), None);
        let before = Asset::try_from(target.before.as_str());
        let contents = Contents {
            before: before.ok().map(|asset| asset.digest()),
            ..Contents::default()
        };
        units[no].contents.insert(asset.clone(), contents);
        of.insert(asset.clone(), no);
    }
    (units, of)
}
