//! Executes a command of an operator, or refuses it if its object does not exist.

use std::collections::BTreeSet;

use control_plane_store::records::{Decision, Ended, Outcome, Override, Pause, Scope};
use jiff::Timestamp;
use plugin_sdk::{By, Cause, CheckName, Now};
use prodspec_model::{AssetId, Digest, TypeName};

use super::{
    Kernel,
    admission::FAILED,
    clock::wall_at,
    event::{Effects, Record},
    state::{
        attempt::{Phase, Wait},
        numbers::SlotNo,
        people::{Command, People, Waiver},
        slot::{Class, Trigger, flag},
    },
    without_plugin,
};
use crate::bug::Bug;

/// Maximum number of names that a refusal lists.
const NAMED: usize = 8;

/// Why a command is refused, and which objects it could name instead.
type Refused = String;

impl Kernel {
    pub(super) fn person(&mut self, now: Now, command: Command, out: &mut Effects) {
        self.people.expire(now.wall);
        if let Err(why) = self.heed(now, command, out) {
            out.refused = Some(why);
        }
    }

    fn heed(&mut self, now: Now, command: Command, out: &mut Effects) -> Result<(), Refused> {
        match command {
            Command::Pause { scope, until, by } => self.pause(now, scope, until, by, out),
            Command::Resume { scope, by } => self.resume(now, &scope, by, out),
            Command::Approve {
                asset,
                change,
                until,
                by,
            } => self.approve(now, asset, change, until, by, out),
            Command::ApproveSet {
                set,
                size,
                until,
                by,
            } => self.approve_set(now, (set, size), until, by, out),
            Command::Override {
                asset,
                change,
                check,
                until,
                by,
            } => self.lift(now, (asset, change, check), until, by, out),
            Command::LookNow { asset, by } => self.look_now(now, &asset, by, out),
            Command::Acknowledge { asset, by } => self.acknowledge(now, &asset, by, out),
            Command::PushIsOver { asset, by } => self.push_is_over(now, &asset, by, out),
        }
    }

    fn pause(
        &mut self,
        now: Now,
        scope: Scope,
        until: Option<Timestamp>,
        by: By,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        match &scope {
            Scope::Asset(asset) => drop(self.known(asset)?),
            Scope::Type(name) if self.kind_of(name.as_str()).is_none() => {
                return Err(no_plugin(name, &self.registered_types()));
            }
            _ => {}
        }
        is_to_come(now, until)?;
        let pause = Pause {
            scope,
            by,
            at: now.wall,
            until,
            resumed: None,
        };
        self.people.pause_in(pause.clone());
        self.record(Record::Pause(pause), out);
        Ok(())
    }

    fn resume(
        &mut self,
        now: Now,
        scope: &Scope,
        by: By,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let ended = Ended { by, at: now.wall };
        let Some(pause) = self.people.resume(scope, ended) else {
            return Err(not_paused(scope, self.people.paused()));
        };
        self.record(Record::Pause(pause), out);
        self.look_at_held(now);
        Ok(())
    }

    fn lift(
        &mut self,
        now: Now,
        (asset, change, check): (AssetId, Digest, CheckName),
        until: Option<Timestamp>,
        by: By,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let slot = match self.is_ahead(now, &asset, change, |_| true) {
            true => self.known(&asset)?,
            false => self.has_change(&asset, change)?,
        };
        if check.as_str() == FAILED {
            return Err(format!(
                "`{FAILED}` stands for a check stack that failed as a whole; the verdicts of its checks are not known and \
                 cannot be overridden"
            ));
        }
        // A part of a check, such as one policy of several, has a name of its own.
        let is_part = |of: &CheckName| {
            let part = check.as_str().strip_prefix(of.as_str());
            part.is_some_and(|part| part.starts_with('/'))
        };
        let checks = &self.config.checks;
        if !checks.contains(&check) && !checks.iter().any(is_part) {
            let names = self.config.checks.iter().map(ToString::to_string);
            return Err(format!(
                "no check is named `{check}`; the checks are {}",
                listed(names)
            ));
        }
        is_to_come(now, until)?;
        let word = Override {
            asset,
            change,
            check,
            by,
            at: now.wall,
            until: People::until(now.wall, until),
            used: None,
            replaced: None,
        };
        self.let_through(Waiver::Override(word), out);
        self.asked(now, slot);
        Ok(())
    }

    /// Puts an approval or an override in force. One for the same change that is unused is replaced.
    pub(super) fn let_through(&mut self, word: Waiver, out: &mut Effects) {
        let older = self.people.heed(word.clone());
        if let Some(older) = older.filter(|_| !self.planted(Bug::KeepRepeated)) {
            self.record_word(older, out);
        }
        self.record_word(word, out);
    }

    fn look_now(
        &mut self,
        now: Now,
        asset: &AssetId,
        by: By,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let slot = self.known(asset)?;
        let entry = self.table.slot(slot);
        if !self.table.has_intent(slot) && !entry.in_flight() {
            if !self.has_plugin(slot) {
                let name = &self.kinds[entry.kind.index()].config.name;
                return Err(format!(
                    "`{asset}` is left alone: {}",
                    without_plugin::why(name.as_str())
                ));
            }
            let why = match entry.has(flag::ORPHAN) {
                true => {
                    "left intent and is left alone; acknowledge it, or put it into intent again"
                }
                false => "has no pin yet; its rollout decides when it gets one",
            };
            return Err(format!("`{asset}` {why}"));
        }
        if self.must_wait(slot) {
            let until = self.attempts.at(entry.attempt).and_then(|it| it.wakes);
            let until = until.map_or_else(String::new, |at| {
                format!(", at the latest until {:.0}", wall_at(now, at))
            });
            return Err(format!(
                "a push of `{asset}` whose outcome is unknown may still run{until}, and its provider cannot keep late \
                 calls out; if you are certain that it no longer runs, confirm that the push is over"
            ));
        }
        self.may_look(now, slot, asset)?;
        match self.waits_for_permit(slot) {
            // The finding at hand is set aside: the asset gets its push capacity after another diff.
            true => self.enqueue(now, slot, Trigger::Asked, Class::Intent),
            false => self.asked(now, slot),
        }
        // The earlier finding is in doubt: a caller that waits gets that of this diff.
        self.mark(slot, out, |entry| entry.set(flag::REQUIRED, true));
        self.told(now, slot, "look now", by, out);
        Ok(())
    }

    /// Returns why no diff of an asset could start now, if none could.
    fn may_look(&self, now: Now, slot: SlotNo, asset: &AssetId) -> Result<(), Refused> {
        if !self.has_lease(now) {
            return Err(
                "it is not certain that this process still owns the partition; try again".into(),
            );
        }
        if !self.may_start(now) {
            return Err("this process is shutting down; ask the next owner".into());
        }
        let kind = &self.kinds[self.table.slot(slot).kind.index()];
        let (calls, then) = match () {
            () if !kind.breaker.allows(now.mono) => ("calls", "diffed"),
            () if self.waits_for_permit(slot) && !kind.push_breaker.allows(now.mono) => {
                ("pushes", "pushed")
            }
            () => return Ok(()),
        };
        Err(format!(
            "the plugin of {} fails for most of its assets and its {calls} are held back; `{asset}` is {then} once a \
             probe succeeds",
            kind.config.name
        ))
    }

    fn waits_for_permit(&self, slot: SlotNo) -> bool {
        let it = self.attempts.at(self.table.slot(slot).attempt);
        it.is_some_and(|it| matches!(it.phase, Phase::Permit))
    }

    /// Forgets an orphan at the command of an operator; production keeps its resource.
    fn acknowledge(
        &mut self,
        now: Now,
        asset: &AssetId,
        by: By,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let slot = self.known(asset)?;
        if !self.table.slot(slot).has(flag::ORPHAN) {
            let (orphans, left_running) = self.orphans();
            let orphans = orphans.iter().chain(&left_running).map(ToString::to_string);
            return Err(format!(
                "`{asset}` is part of intent and not an orphan; the orphans are {}",
                listed(orphans)
            ));
        }
        if self.table.slot(slot).in_flight() {
            return Err(format!(
                "a push of `{asset}` is in flight, or its outcome is unknown; try again when it is over"
            ));
        }
        self.told(now, slot, "acknowledged as an orphan", by, out);
        self.mark(slot, out, |entry| {
            entry.set(flag::ORPHAN | flag::THERE, false)
        });
        self.edges.settle(asset, Vec::new());
        self.claims.amounts.next_round();
        self.record(Record::Orphan(asset.clone(), None), out);
        self.record(Record::Asset(asset.clone(), None), out);
        self.give_up(now, slot);
        Ok(())
    }

    /// R13: ends the wait for a push of unknown outcome, because an operator confirms that it no longer runs.
    fn push_is_over(
        &mut self,
        now: Now,
        asset: &AssetId,
        by: By,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let slot = self.known(asset)?;
        let it = self.attempts.at(self.table.slot(slot).attempt);
        let unknown = it.is_some_and(|it| matches!(it.phase, Phase::Waiting(Wait::Unknown)));
        if !unknown {
            return Err(format!(
                "`{asset}` has no push of unknown outcome; `explain` shows what it waits for"
            ));
        }
        self.told(now, slot, "the push is over", by, out);
        if let Some(it) = self.attempts.at_mut(self.table.slot(slot).attempt) {
            (it.call_until, it.push_until) = (now.mono, now.mono);
        }
        // The next owner does not wait either.
        self.remember(now, slot, out);
        self.enqueue(now, slot, Trigger::Asked, Class::Intent);
        Ok(())
    }

    /// Returns the slot of an asset that is enforced or an orphan.
    pub(super) fn known(&self, asset: &AssetId) -> Result<SlotNo, Refused> {
        self.table.find(asset.as_str()).ok_or_else(|| {
            format!(
                "no enforced asset is called `{asset}`; `status` and `explain` name those that are"
            )
        })
    }

    /// Returns the slot of an asset whose last diff found exactly this change.
    pub(super) fn has_change(&self, asset: &AssetId, change: Digest) -> Result<SlotNo, Refused> {
        let slot = self.known(asset)?;
        let it = self.attempts.at(self.table.slot(slot).attempt);
        let found = it.and_then(|it| it.change.as_ref());
        match found {
            Some(found) if found.digest == change => Ok(slot),
            Some(found) => Err(format!(
                "the change of `{asset}` is now {} ({}); review it and repeat the command with this digest",
                found.digest, found.summary
            )),
            None if self.table.is_settled(slot) => {
                Err(format!("`{asset}` is in sync; there is nothing to change"))
            }
            None => Err(format!(
                "no change of `{asset}` has been found yet; `explain` shows it once there is one"
            )),
        }
    }

    pub(super) fn destroys(&self, slot: SlotNo) -> bool {
        let it = self.attempts.at(self.table.slot(slot).attempt);
        it.is_some_and(|it| {
            let destructive = |change: &plugin_sdk::Change| change.effects.destructive;
            it.turndown || it.change.as_deref().is_some_and(destructive)
        })
    }

    /// Triggers a diff of an asset at the command of an operator, whatever the asset waits for.
    pub(super) fn asked(&mut self, now: Now, slot: SlotNo) {
        if let Some(it) = self.attempts.at_mut(self.table.slot(slot).attempt) {
            it.asleep = None;
        }
        self.trigger(now, slot, Trigger::Asked, Class::Intent);
    }

    /// Records a command among the decisions about an asset.
    fn told(&mut self, now: Now, slot: SlotNo, what: &str, by: By, out: &mut Effects) {
        let Some(id) = self.table.id(slot) else {
            return;
        };
        let at = self.table.slot(slot).attempt;
        let it = self.attempts.at(at);
        let incarnation = self.table.intent(slot).map(|(_, incarnation)| incarnation);
        let incarnation = incarnation.unwrap_or_else(|| self.table.latest().clone());
        let decision = Decision {
            at: now.wall,
            trigger: Trigger::Asked,
            cause: it.map_or(Cause::Intent, |it| it.cause),
            incarnation: incarnation.no(),
            token: self.ownership.token(),
            change: None,
            summary: String::new(),
            outcome: Outcome::Command {
                what: what.to_owned(),
                by,
            },
            allowed_by: Vec::new(),
        };
        self.record(Record::Decision(id, decision), out);
    }

    /// Triggers diffs of all assets that wait for an operator, because a pause ended.
    fn look_at_held(&mut self, now: Now) {
        let held: Vec<SlotNo> = self
            .attempts
            .iter()
            .filter(|it| it.is_held())
            .map(|it| it.slot)
            .collect();
        for slot in held {
            self.trigger(now, slot, Trigger::Asked, Class::Intent);
        }
    }
}

/// Why a type cannot be paused that has no plugin.
pub(super) fn no_plugin(name: &TypeName, types: &BTreeSet<TypeName>) -> Refused {
    let types = types.iter().map(ToString::to_string);
    format!(
        "no plugin enforces the type {name}; the enforced types are {}",
        listed(types)
    )
}

/// Why a scope cannot be resumed that is not paused.
pub(super) fn not_paused(scope: &Scope, paused: Vec<String>) -> Refused {
    match paused.is_empty() {
        true => format!("{scope} is not paused; no pause is in force"),
        false => format!(
            "{scope} is not paused; the paused scopes are {}",
            listed(paused)
        ),
    }
}

pub(super) fn is_to_come(now: Now, until: Option<Timestamp>) -> Result<(), Refused> {
    match until {
        Some(until) if until <= now.wall => Err(format!(
            "the end {until:.0} is in the past; it is {:.0} now",
            now.wall
        )),
        _ => Ok(()),
    }
}

/// Joins some names into a text that says how many more there are.
fn listed(names: impl IntoIterator<Item = String>) -> String {
    let names: Vec<String> = names.into_iter().collect();
    let more = names.len().saturating_sub(NAMED);
    let mut text = names[..names.len() - more].join(", ");
    if names.is_empty() {
        text.push_str("none");
    }
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
