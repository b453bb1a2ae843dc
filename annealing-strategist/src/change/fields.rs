//! Turns the pins that a change has moved into edits, and the outcomes of edits into standings. It is pure.
//!
//! A target whose pin goes to the incarnation with all fields set has its fields set, one whose pin goes back has them
//! restored. Targets with a field in common are one unit. Edits are requested again until they are made: setting a field
//! to a value that it has changes nothing, so an answer that was lost does no harm.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::{
    By, ChangeId, Holder, Mono, Now, Pin, Standing, SyncState,
    operation::SourceEdit,
    plugin,
    port::{HeldEdit, Made, SettleEnd, SettleRequest, Settlement},
};
use prodspec_model::{Asset, AssetId, Digest, SourceName};

use super::{
    form::Form,
    intent::Intent,
    record::Stored,
    unit::{Stage, Unit, Units, number},
};
use crate::bug::{Bug, planted};

/// Maximum number of fields in one edit.
const FIELDS: usize = 1000;
/// Wait before an edit is requested again that was not made.
const AGAIN: Duration = Duration::from_secs(30);

/// The fields of one change.
#[derive(Debug)]
pub(crate) struct Fields {
    holder: Holder,
    by: By,
    source: SourceName,
    pub(super) units: Units,
    calls: u64,
    /// The call that edits or reads the source now. The next one waits for its answer: an edit that has begun may still be made.
    at_source: Option<u64>,
}

/// A call that the shell has to make. Its answer returns with the number.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    /// Make an edit.
    Edit(u64, HeldEdit),
    /// Find out which fields of an edit do not have their new values.
    Look(u64, HeldEdit),
    /// Wait until production has an edit.
    Settle(u64, SettleRequest),
}

/// The consequences of an event.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) calls: Vec<Call>,
    /// Standings for the kernel of the rollout.
    pub(crate) standings: Vec<(AssetId, Standing)>,
    /// Targets that leave the change.
    pub(crate) left: Vec<AssetId>,
}

impl Fields {
    /// Creates the fields of a stored change. Those of targets that were on their way when the last owner stopped are due. The
    /// numbers of its calls follow `calls`.
    pub(crate) fn of(stored: &Stored, intent: &Intent, now: Mono, calls: u64) -> Self {
        let mut units = Units::default();
        for (asset, target) in &stored.targets {
            let before = Asset::try_from(target.before.as_str()).ok();
            let before = before.map(|asset| asset.digest());
            units.add(asset, (&target.edits, &target.reserved), before);
        }
        let mut fields = Self {
            holder: stored.holder(),
            by: stored.record.by.clone(),
            source: stored.record.source.clone(),
            units,
            calls,
            at_source: None,
        };
        for (asset, target) in &stored.targets {
            for earlier in &target.earlier {
                if let Some(unit) = fields.unit(asset) {
                    unit.had(earlier.version, &earlier.edits);
                }
            }
        }
        for (asset, row) in &stored.rows {
            let Some(unit) = fields.unit(asset) else {
                continue;
            };
            let pin = intent.pin_by(row);
            unit.assets.insert(asset.clone(), Some(pin));
            unit.may_have.extend((0..=intent.version()).map(Form::Set));
            unit.stage = match (row.updated_at, row.back_at) {
                (Some(_), None) if !matches!(unit.stage, Stage::Due { .. }) => Stage::Doubted {
                    at: now,
                    settled: true,
                },
                _ => Stage::Due {
                    at: now,
                    alone: false,
                },
            };
            if unit.stage.is_settled() {
                unit.may_have = BTreeSet::from([intent.form(pin)]);
            }
            // Never less than any number that the last owner has used.
            unit.moves = 2 * row.rollout.0 - u64::from(row.back_at.is_none());
            let moved = row.back_at.unwrap_or(row.moved_at);
            unit.moved_at = stored.rollout.started_at.checked_add(moved).ok();
        }
        fields
    }

    /// Returns when an edit is due. `None`: none is.
    pub(crate) fn next_wake(&self) -> Option<Mono> {
        if self.at_source.is_some() {
            return None;
        }
        let due = self.units.all.iter().filter_map(|unit| match unit.stage {
            Stage::Due { at, .. } | Stage::Doubted { at, .. } => Some(at),
            _ => None,
        });
        due.min()
    }

    /// Pins have moved, and that is durable.
    pub(crate) fn moved(
        &mut self,
        now: Now,
        intent: &Intent,
        moves: &[(AssetId, Pin)],
        out: &mut Out,
    ) {
        for (asset, pin) in moves {
            let Some(unit) = self.unit(asset) else {
                continue;
            };
            if *pin == Pin::Default || unit.stage == Stage::Left {
                continue;
            }
            let turns = unit.aim(intent) != Some(intent.form(*pin));
            unit.assets.insert(asset.clone(), Some(*pin));
            if turns {
                unit.stage = Stage::Due {
                    at: now.mono,
                    alone: false,
                };
                unit.moves += 1;
                unit.moved_at = Some(now.wall);
                for contents in unit.contents.values_mut() {
                    contents.before = contents.standing.as_ref().and_then(|it| it.content);
                    (contents.looked, contents.in_sync) = (None, None);
                }
            }
            let standing = unit.standing(intent, now.wall, asset);
            out.standings.extend(standing.map(|it| (asset.clone(), it)));
        }
        self.go_on(now, intent, out);
    }

    /// Makes the next call to the source, if one is due. The way back comes first.
    pub(crate) fn go_on(&mut self, now: Now, intent: &Intent, out: &mut Out) {
        if self.at_source.is_some() {
            return;
        }
        let doubted = self.doubted(now);
        if !doubted.is_empty() {
            return self.look(intent, &doubted, out);
        }
        let chosen = self.chosen(now, intent);
        if chosen.is_empty() {
            return;
        }
        self.calls += 1;
        let (call, alone) = (self.calls, chosen.len() == 1);
        self.at_source = Some(call);
        out.calls
            .push(Call::Edit(call, self.edit_of(intent, &chosen)));
        for no in &chosen {
            let unit = &mut self.units.all[*no];
            unit.stage = Stage::Editing { call, alone };
            // It may be made even if the answer says otherwise, or is lost.
            unit.may_have.extend(unit.aim(intent));
        }
    }

    /// The units whose fields are looked up next, together.
    fn doubted(&self, now: Now) -> Vec<usize> {
        let (mut doubted, mut fields) = (Vec::new(), 0);
        for (no, unit) in self.units.all.iter().enumerate() {
            let due = matches!(unit.stage, Stage::Doubted { at, .. } if at <= now.mono);
            if due && (fields + unit.edits.len() <= FIELDS || doubted.is_empty()) {
                doubted.push(no);
                fields += unit.edits.len();
            }
        }
        doubted
    }

    fn look(&mut self, intent: &Intent, units: &[usize], out: &mut Out) {
        self.calls += 1;
        let call = self.calls;
        for no in units {
            let unit = &mut self.units.all[*no];
            let settled = matches!(unit.stage, Stage::Doubted { settled: true, .. });
            unit.stage = Stage::Looking { call, settled };
            for contents in unit.contents.values_mut() {
                contents.looking = contents.standing.as_ref().and_then(|it| it.content);
            }
        }
        self.at_source = Some(call);
        let edit = self.edit_of(intent, units);
        out.calls.push(Call::Look(call, edit));
    }

    /// The units whose fields are edited next, together.
    fn chosen(&self, now: Now, intent: &Intent) -> Vec<usize> {
        let due = |unit: &Unit, wants_alone: bool| matches!(unit.stage, Stage::Due { at, alone } if at <= now.mono && alone == wants_alone);
        for back in [true, false] {
            let (mut chosen, mut fields) = (Vec::new(), 0);
            let units = self.units.all.iter().enumerate();
            for (no, unit) in units.filter(|(_, unit)| unit.is_back(intent) == back) {
                let fits = fields + unit.edits.len() <= FIELDS || chosen.is_empty();
                if due(unit, false) && fits {
                    chosen.push(no);
                    fields += unit.edits.len();
                }
            }
            if !chosen.is_empty() {
                return chosen;
            }
        }
        let alone = self.units.all.iter().position(|unit| due(unit, true));
        alone.into_iter().collect()
    }

    /// The edit of some units. It may change their targets only, unless it restores fields.
    fn edit_of(&self, intent: &Intent, units: &[usize]) -> HeldEdit {
        let first = units.first().and_then(|no| self.units.all.get(*no));
        let id = first.map(|unit| unit.change_id(&self.holder));
        let id = id.unwrap_or_else(|| 0.into());
        let mut edit = HeldEdit::new(id, self.holder.clone(), self.by.clone());
        let mut targets = BTreeSet::new();
        let mut is_back = false;
        for unit in units.iter().filter_map(|no| self.units.all.get(*no)) {
            let back = unit.is_back(intent);
            let fields = unit.directed(intent);
            let many = fields.iter().map(Vec::len);
            match back {
                // One that cannot be restored does not hold up the others.
                true => edit.units.extend(many),
                false => edit.units.push(many.sum()),
            }
            let edits = fields.into_iter().flatten().map(|edit| SourceEdit {
                source: self.source.clone(),
                edit,
            });
            edit.edits.extend(edits);
            targets.extend(unit.assets.keys().cloned());
            is_back |= back;
        }
        edit.lenient = true;
        edit.turndown = true;
        edit.blast_radius = Some(u32::MAX);
        edit.only = (!is_back).then_some(targets);
        edit
    }

    pub(super) fn unit(&mut self, asset: &AssetId) -> Option<&mut Unit> {
        let no = *self.units.of.get(asset)?;
        self.units.all.get_mut(no)
    }

    /// An edit was made, or was not.
    pub(crate) fn edited(
        &mut self,
        now: Now,
        intent: &Intent,
        (call, first): (u64, ChangeId),
        answer: Result<Made, plugin::Error>,
        out: &mut Out,
    ) {
        self.at_source = self.at_source.filter(|at| *at != call);
        let in_it =
            |unit: &Unit| matches!(unit.stage, Stage::Editing { call: it, .. } if it == call);
        let places: Vec<usize> = (0..self.units.all.len())
            .filter(|no| in_it(&self.units.all[*no]))
            .collect();
        for no in places {
            match &answer {
                Ok(made) => self.made(now, intent, no, (&first, made), out),
                Err(error) => self.not_made(now, intent, no, error, out),
            }
        }
        self.go_on(now, intent, out);
    }

    /// The fields of an edit that do not have their values are known. A unit without such a field is as it was before the doubt,
    /// or is waited for again.
    pub(crate) fn looked(
        &mut self,
        now: Now,
        intent: &Intent,
        (call, edit): (u64, ChangeId),
        answer: Result<Vec<String>, plugin::Error>,
        out: &mut Out,
    ) {
        self.at_source = self.at_source.filter(|at| *at != call);
        for no in 0..self.units.all.len() {
            let settled = match self.units.all[no].stage {
                Stage::Looking { call: it, settled } if it == call => settled,
                _ => continue,
            };
            match &answer {
                Ok(left_alone) if !settled || self.is_left(intent, no, left_alone) => {
                    // The wait is for an edit that is not known: the doubt about the known one would end it at once.
                    let edit = other_id(&edit, call);
                    let made = Made {
                        left_alone: left_alone.clone(),
                        ..Made::default()
                    };
                    self.made(now, intent, no, (&edit, &made), out);
                }
                Ok(_) => self.cleared(now, intent, no, out),
                Err(error) => {
                    let at = now.mono + again(error);
                    self.units.all[no].stage = Stage::Doubted { at, settled };
                }
            }
        }
        self.go_on(now, intent, out);
    }

    /// Whether a field of a unit is not the change's any more.
    fn is_left(&self, intent: &Intent, no: usize, left_alone: &[String]) -> bool {
        let mut edits = self.units.all[no].directed(intent).into_iter().flatten();
        edits.any(|edit| left_alone.contains(&edit.to_string()))
    }

    fn made(
        &mut self,
        now: Now,
        intent: &Intent,
        no: usize,
        (change, made): (&ChangeId, &Made),
        out: &mut Out,
    ) {
        if self.is_left(intent, no, &made.left_alone) {
            let unit = &mut self.units.all[no];
            unit.stage = Stage::Left;
            out.left.extend(unit.assets.keys().cloned());
            return;
        }
        self.calls += 1;
        let unit = &mut self.units.all[no];
        unit.stage = match planted(Bug::CountsAtOnce) {
            true => Stage::Settled,
            false => Stage::Settling(self.calls),
        };
        unit.may_have = unit.aim(intent).into_iter().collect();
        for change in &made.changes {
            if let Some(contents) = unit.contents.get_mut(&change.id()) {
                contents.looked = change.after.as_ref().map(Asset::digest);
            }
        }
        let request = SettleRequest {
            change: change.clone(),
            assets: unit.assets.keys().cloned().collect(),
        };
        out.calls.push(Call::Settle(self.calls, request));
        self.report(now, intent, no, out);
        self.replay(now, intent, no, out);
    }

    /// A refused edit is tried again alone, so that one unit does not hold up others. It waits until it can be made.
    fn not_made(
        &mut self,
        now: Now,
        intent: &Intent,
        no: usize,
        error: &plugin::Error,
        out: &mut Out,
    ) {
        let unit = &mut self.units.all[no];
        let is_permanent = matches!(error, plugin::Error::Permanent { .. });
        let (wait, alone) = match (is_permanent, &unit.stage) {
            (true, Stage::Editing { alone: false, .. }) => (Duration::ZERO, true),
            (true, _) => (AGAIN, true),
            (false, _) => (again(error), false),
        };
        unit.stage = Stage::Due {
            at: now.mono + wait,
            alone,
        };
        let since = now.wall;
        let why = error.to_string();
        let held = |pin: Pin, asset: &AssetId| {
            let mut standing = intent.standing(asset, pin, false);
            standing.state = SyncState::OutOfSync {
                since,
                waits_for: Vec::new(),
                why: Some(why.clone()),
                awaits_person: is_permanent && alone,
            };
            standing
        };
        let moved = unit
            .assets
            .iter()
            .filter_map(|(asset, pin)| Some((asset, (*pin)?)));
        let standings = moved.map(|(asset, pin)| (asset.clone(), held(pin, asset)));
        out.standings.extend(standings);
    }

    /// A wait for production is over.
    pub(crate) fn settled(
        &mut self,
        now: Now,
        intent: &Intent,
        call: u64,
        end: SettleEnd,
        out: &mut Out,
    ) {
        let waits = |unit: &Unit| unit.stage == Stage::Settling(call);
        let Some(no) = self.units.all.iter().position(waits) else {
            return;
        };
        match end {
            Ok(Settlement::Done) => {
                self.units.all[no].stage = Stage::Settled;
                self.report(now, intent, no, out);
                self.replay(now, intent, no, out);
            }
            Ok(Settlement::Overwritten(_)) => {
                self.units.all[no].stage = Stage::Doubted {
                    at: now.mono,
                    settled: false,
                };
            }
            Ok(Settlement::RolledBack(why)) => {
                self.not_made(now, intent, no, &plugin::Error::transient(why), out);
            }
            Err(error) => self.not_made(now, intent, no, &error, out),
        }
        self.go_on(now, intent, out);
    }
}

fn again(error: &plugin::Error) -> Duration {
    match error {
        plugin::Error::Throttled { after, .. } => *after,
        _ => AGAIN,
    }
}

/// An id under which no edit was made.
fn other_id(id: &ChangeId, call: u64) -> ChangeId {
    let digest = Digest::of(format!("{} {call}", id.as_str()).as_bytes());
    number(digest).into()
}
