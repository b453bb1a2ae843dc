//! Units: targets of a change that have a field in common, and how far they are on their way.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use plugin_sdk::{ChangeId, FieldEdit, Holder, Mono, Pin, Standing, SyncState};
use prodspec_model::{AssetId, Digest};
use serde_json::Value;

use super::{form::Form, intent::Intent};
use crate::bug::{Bug, planted};

/// Targets that have a field in common.
#[derive(Debug, Default)]
pub(super) struct Unit {
    /// The fields, with their values before and in the newest version of the change.
    pub(super) edits: Vec<FieldEdit>,
    /// The same in earlier versions.
    earlier: BTreeMap<usize, Vec<FieldEdit>>,
    /// The forms that the fields may have now, as far as the change knows. Other values are a person's.
    pub(super) may_have: BTreeSet<Form>,
    /// The edit by which they were reserved.
    pub(super) reserved: Option<ChangeId>,
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
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Stage {
    /// No target has moved.
    #[default]
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
    /// The form that the fields are to have. `None`: no target has moved.
    pub(super) fn aim(&self, intent: &Intent) -> Option<Form> {
        let pins = self.assets.values().flatten();
        pins.map(|pin| intent.form(*pin)).max()
    }

    /// Whether the fields are to be as they were.
    pub(super) fn is_back(&self, intent: &Intent) -> bool {
        self.aim(intent) == Some(Form::Before)
    }

    /// For each field, the edits that give it the value that it is to have: one for each value that it may have.
    pub(super) fn directed(&self, intent: &Intent) -> Vec<Vec<FieldEdit>> {
        let newest = Form::Set(intent.version());
        let aim = self.aim(intent).unwrap_or(newest);
        let mut from: Vec<Form> = self.may_have.iter().copied().collect();
        from.retain(|form| *form != aim);
        if planted(Bug::ExpectsLast) {
            from.drain(..from.len().saturating_sub(1));
        }
        if from.is_empty() {
            from.push(match aim {
                Form::Before => newest,
                Form::Set(_) => Form::Before,
            });
        }
        let of = |edit: &FieldEdit| {
            let between = |from: &Form| {
                let mut directed = edit.clone();
                directed.was = self.value(edit, *from)?;
                directed.to = self.value(edit, aim)?;
                Some(directed)
            };
            let mut edits: Vec<FieldEdit> = from.iter().filter_map(between).collect();
            edits.dedup();
            edits
        };
        self.edits.iter().map(of).collect()
    }

    /// The value of a field in a form. `None`: that version did not set it.
    fn value(&self, edit: &FieldEdit, form: Form) -> Option<Option<Value>> {
        let earlier = match form {
            Form::Before => return Some(edit.was.clone()),
            Form::Set(version) => self.earlier.get(&version),
        };
        let Some(earlier) = earlier else {
            return Some(edit.to.clone());
        };
        let same = earlier.iter().find(|it| named(it) == named(edit));
        same.map(|it| it.to.clone())
    }

    /// The fields of a target in the newest version.
    fn edits_like(&self, edits: &[FieldEdit]) -> Vec<FieldEdit> {
        let names: BTreeSet<String> = edits.iter().map(named).collect();
        let ours = self.edits.iter().filter(|it| names.contains(&named(it)));
        ours.cloned().collect()
    }

    /// Whether the newest version gives a field this value.
    pub(super) fn sets(&self, edit: &FieldEdit) -> bool {
        let same = |it: &&FieldEdit| named(it) == named(edit);
        self.edits
            .iter()
            .find(same)
            .is_some_and(|it| it.to == edit.to)
    }

    /// Takes in the fields of a target in an earlier version.
    pub(super) fn had(&mut self, version: usize, edits: &[FieldEdit]) {
        let known = self.earlier.entry(version).or_default();
        for edit in edits {
            if !known.iter().any(|it| named(it) == named(edit)) {
                known.push(edit.clone());
            }
        }
    }

    /// The fields with all values that they had in earlier versions, each with the newest value.
    pub(super) fn known(&self) -> impl Iterator<Item = FieldEdit> {
        let earlier = self.earlier.values().flatten().filter_map(|it| {
            let mut newest = self
                .edits
                .iter()
                .find(|edit| named(edit) == named(it))?
                .clone();
            newest.was.clone_from(&it.to);
            Some(newest)
        });
        self.edits.iter().cloned().chain(earlier)
    }

    /// The id of the present edit. It differs each time that the fields are set or restored.
    pub(super) fn change_id(&self, holder: &Holder) -> ChangeId {
        let reserved = self.reserved.as_ref().map(ChangeId::as_str);
        let (reserved, moves) = (reserved.unwrap_or_default(), self.moves);
        let field = self.edits.first().map(named).unwrap_or_default();
        let text = format!("{holder} {reserved} {field} {moves}");
        number(Digest::of(text.as_bytes())).into()
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

/// All units, with their targets and fields.
#[derive(Debug, Default)]
pub(super) struct Units {
    pub(super) all: Vec<Unit>,
    /// The unit of each target.
    pub(super) of: BTreeMap<AssetId, usize>,
    /// The unit of each field.
    by_field: BTreeMap<String, usize>,
}

impl Units {
    /// Adds a target, to the unit that has a field of it, or to a unit of its own.
    pub(super) fn add(
        &mut self,
        asset: &AssetId,
        (edits, reserved): (&[FieldEdit], &ChangeId),
        before: Option<Digest>,
    ) {
        let known = edits.iter().find_map(|it| self.by_field.get(&named(it)));
        let no = known.copied().unwrap_or_else(|| {
            self.all.push(Unit::default());
            self.all.len() - 1
        });
        for edit in edits {
            if self.by_field.insert(named(edit), no).is_none() {
                self.all[no].edits.push(edit.clone());
            }
        }
        self.all[no]
            .reserved
            .get_or_insert_with(|| reserved.clone());
        self.all[no].may_have.insert(Form::Before);
        self.all[no].assets.insert(asset.clone(), None);
        let contents = Contents {
            before,
            ..Contents::default()
        };
        self.all[no].contents.insert(asset.clone(), contents);
        self.of.insert(asset.clone(), no);
    }

    /// Gives the fields of a target other values, those of the version after `version`.
    pub(super) fn give(&mut self, asset: &AssetId, version: usize, edits: &[FieldEdit]) {
        let Some(no) = self.of.get(asset) else { return };
        let unit = &mut self.all[*no];
        let were = unit.edits_like(edits);
        unit.had(version, &were);
        for edit in edits {
            let ours = unit.edits.iter_mut().find(|it| named(it) == named(edit));
            if let Some(ours) = ours {
                if planted(Bug::HandOverMovesWay) {
                    ours.was.clone_from(&ours.to);
                }
                ours.to.clone_from(&edit.to);
            }
        }
    }

    /// Forgets a target, and a unit without targets.
    pub(super) fn forget(&mut self, asset: &AssetId) {
        let Some(no) = self.of.remove(asset) else {
            return;
        };
        let unit = &mut self.all[no];
        unit.assets.remove(asset);
        unit.contents.remove(asset);
        if unit.assets.is_empty() {
            unit.stage = Stage::Left;
            self.by_field.retain(|_, of| *of != no);
        }
    }
}

/// The name of a field in its source.
pub(super) fn named(edit: &FieldEdit) -> String {
    format!("{} {}", edit.document, edit.path)
}

pub(super) fn number(digest: Digest) -> u128 {
    let bytes = digest.0.iter().take(16);
    bytes.fold(0, |number, byte| (number << 8) | u128::from(*byte))
}
