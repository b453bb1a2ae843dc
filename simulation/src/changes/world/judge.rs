//! The rules that must hold at each edit of the text, and at the end. They are judged by the text, by production, and by how
//! the rollouts have ended by their records.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use control_plane::{
    sdk::{FieldEdit, SourceChange},
    strategist::State as How,
};
use serde_json::Value;

use super::{Counts, State, Wanted};
use crate::{
    changes::manifest::{FIRST, POLICIES},
    executor::Instant,
};

/// Changes that were requested within this time may all be live.
const RECENT: Duration = Duration::from_secs(240);

/// A service that comes again within this time may not have been seen to be gone.
const UNSEEN: Duration = Duration::from_secs(180);

/// After this time in a pause, no edit that was under way before is made any more, if there are no faults.
const PAUSED: Duration = Duration::from_secs(50);

/// A service that comes this long before a change sets the field of another one takes its turn in it.
const SOON: Duration = Duration::from_secs(120);

/// A service and the name of one of its fields.
type Field = (String, &'static str);

/// The facts that the judge has seen.
#[derive(Default)]
pub(in crate::changes) struct Judge {
    /// The rule that was broken first, and how.
    pub(in crate::changes) violation: Option<(String, String)>,
    pub(in crate::changes) counts: Counts,
    /// The changes that people have requested.
    pub(in crate::changes) wanted: Vec<Wanted>,
    /// The versions that were offered to the train.
    pub(in crate::changes) offered: Vec<u64>,
    /// The last one of these that was offered in the text.
    pub(in crate::changes) newest: Option<u64>,
    /// The values before the versions of the train, by service and version.
    before: BTreeMap<(String, u64), u64>,
    /// The versions that were seen ripe in the first stage.
    ripe: BTreeSet<u64>,
    /// Who set each field last, and when.
    writers: BTreeMap<Field, (Instant, Writer)>,
    /// The times at which services that people have added came.
    came: BTreeMap<String, Instant>,
    /// The times at which they went.
    went: BTreeMap<String, Instant>,
    /// Whether the end was judged.
    ended: bool,
    /// The edits so far, for people who read a violation.
    log: Vec<String>,
    /// The last views of all rollouts, and of the train, for the same.
    pub(in crate::changes) views: Vec<String>,
    pub(in crate::changes) train: String,
}

/// Who has set a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Person,
    /// The change with this number.
    Change(usize),
    Train,
    /// A change or the train, on its way back.
    Back,
}

impl Judge {
    pub(in crate::changes) fn new(train: bool) -> Self {
        Self {
            // All services have the first version of the train at the beginning, so it is ripe everywhere.
            offered: if train { vec![1] } else { Vec::new() },
            ripe: BTreeSet::from([1]),
            ..Self::default()
        }
    }

    /// Number of changes that were requested in the last minutes.
    pub(in crate::changes) fn recent(&self, now: Instant) -> usize {
        let is_recent =
            |wanted: &&Wanted| wanted.requested.iter().any(|at| now.since(*at) < RECENT);
        self.wanted.iter().filter(is_recent).count()
    }

    /// Adds a line for people who read a violation.
    pub(in crate::changes) fn note(&mut self, line: String) {
        self.log.push(line);
    }

    pub(in crate::changes) fn comes(&mut self, now: Instant, name: &str) {
        self.writers.retain(|(of, _), _| of != name);
        self.log.push(format!("{now:?} {name} comes"));
        self.came.insert(name.to_owned(), now);
        self.wanted
            .iter_mut()
            .for_each(|wanted| wanted.disturbed = true);
    }

    pub(in crate::changes) fn goes(&mut self, now: Instant, name: &str) {
        self.log.push(format!("{now:?} {name} goes"));
        self.went.insert(name.to_owned(), now);
        self.wanted.iter_mut().for_each(|wanted| {
            wanted.disturbed = true;
            wanted.forward.remove(name);
            wanted.before.remove(name);
        });
        self.before.retain(|(of, _), _| of != name);
    }
}

/// The service, the field, and the values before and after of an edit.
fn parts(edit: &FieldEdit) -> Option<(String, &'static str, u64, u64)> {
    let path = edit.path.to_string();
    let mut parts = path.split('.');
    let (Some("services"), Some(name), Some(field), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let field = ["flag", "version"].into_iter().find(|it| *it == field)?;
    let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_u64);
    Some((
        name.to_owned(),
        field,
        number(&edit.was)?,
        number(&edit.to)?,
    ))
}

impl State {
    /// Notes the first violation.
    pub(in crate::changes) fn violated(&mut self, rule: &str, why: impl Into<String>) {
        let why = why.into();
        let log = self.judge.log.join("\n");
        let views = self.judge.views.join("\n");
        let train = &self.judge.train;
        let text = &self.page.text;
        let whole = format!("{why}\n{log}\n{views}\n{train}\n{text}");
        self.judge.violation.get_or_insert((rule.to_owned(), whole));
    }

    /// A person sets a field.
    pub(in crate::changes) fn edited_by_hand(
        &mut self,
        now: Instant,
        name: &str,
        field: &'static str,
    ) {
        let judge = &mut self.judge;
        judge
            .log
            .push(format!("{now:?} a person sets {field} of {name}"));
        let of = (name.to_owned(), field);
        judge.writers.insert(of, (now, Writer::Person));
        let theirs = judge
            .wanted
            .iter_mut()
            .filter(|wanted| wanted.field == field);
        theirs.for_each(|wanted| wanted.disturbed = true);
    }

    /// Judges the edits that a program makes at this moment.
    pub(in crate::changes) fn edited_by_program(&mut self, now: Instant, change: &SourceChange) {
        let mut moved: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        self.note_ripe(now);
        for edit in &change.edits {
            self.judge
                .log
                .push(format!("{now:?} {} {edit}", change.who));
            let Some((name, field, was, to)) = parts(edit) else {
                return self.violated("R101", format!("{edit} is no field of a change"));
            };
            let fits = |wanted: &Wanted| wanted.field == field && wanted.values.contains(&to);
            let nth = self.judge.wanted.iter().position(fits);
            let is_back = self.goes_back((&name, field), was, to);
            let owner = match nth {
                _ if is_back => {
                    self.count("back");
                    Writer::Back
                }
                Some(nth) => {
                    moved.entry(nth).or_default().insert(name.clone());
                    self.judge_forward(now, nth, (&name, was, to));
                    Writer::Change(nth)
                }
                None if field == "version" && self.judge.offered.contains(&to) => {
                    self.judge_train(now, &name, (was, to));
                    Writer::Train
                }
                None => return self.violated("R101", format!("{edit} is no edit of a change")),
            };
            self.judge.writers.insert((name, field), (now, owner));
        }
        for (nth, names) in moved {
            self.judge_pace(now, nth, &names);
        }
    }

    /// Whether an edit takes a value of a change or of the train back.
    fn goes_back(&mut self, (name, field): (&str, &'static str), was: u64, to: u64) -> bool {
        let back = |wanted: &&mut Wanted| {
            let before = wanted.before.get(name);
            wanted.field == field && wanted.values.contains(&was) && before == Some(&to)
        };
        if let Some(wanted) = self.judge.wanted.iter_mut().find(back) {
            wanted.disturbed = true;
            return true;
        }
        let key = (name.to_owned(), was);
        field == "version" && self.judge.before.get(&key) == Some(&to)
    }

    /// R34: an edit overwrites no value that a person has set since the change began; this is not judged of a train. R101: it
    /// is made once, but for each retry.
    fn judge_forward(&mut self, now: Instant, nth: usize, (name, was, to): (&str, u64, u64)) {
        self.count("forward");
        let wanted = &mut self.judge.wanted[nth];
        let field = wanted.field;
        let times = wanted.forward.entry(name.to_owned()).or_default();
        *times += 1;
        let many = wanted.retries + wanted.requested.len() + wanted.values.len() - 1;
        let (times, most) = (*times, many);
        let came = self.judge.came.get(name);
        let is_late = came.is_some_and(|came| wanted.requested.iter().all(|at| at <= came));
        if !is_late {
            wanted.last = Some(now);
        }
        if !wanted.values.contains(&was) {
            wanted.before.insert(name.to_owned(), was);
        } else if is_late {
            // It may have come with a value that the change had set.
            wanted.before.entry(name.to_owned()).or_insert(was);
        }
        let (begun, unsure) = (wanted.begun.last().copied(), wanted.unsure);
        let begun = begun.filter(|_| !unsure);
        let (why, at) = (format!("{field} of {name} to {to}"), now);
        if is_late {
            self.count("joined");
        }
        let paused = self.judge.wanted[nth].paused;
        let allowed = PAUSED * if self.faults == 0 { 1 } else { 8 };
        if let Some(paused) = paused.filter(|paused| now.since(*paused) > allowed) {
            let why = format!("an edit sets {why} at {at:?}, and it is paused since {paused:?}");
            self.violated("R18", why);
        }
        if times > most {
            self.violated("R101", format!("{times} edits set {why} at {at:?}"));
        }
        let last = self.judge.writers.get(&(name.to_owned(), field));
        let by_hand = last
            .filter(|(_, writer)| *writer == Writer::Person)
            .map(|it| it.0);
        if let (Some(begun), Some(by_hand)) = (begun, by_hand)
            && begun < by_hand
        {
            let why = format!("an edit sets {why} at {at:?}, and a person did at {by_hand:?}");
            self.violated("R34", why);
        }
    }

    /// R18, R21: no more targets are under way, and none are moved before the canary or wave has baked, than the policy says.
    fn judge_pace(&mut self, now: Instant, nth: usize, new: &BTreeSet<String>) {
        let wanted = &self.judge.wanted[nth];
        if wanted.disturbed || wanted.retries > 0 || wanted.requested.len() > 1 {
            return;
        }
        let (policy, field) = (wanted.policy.clone(), (wanted.field, wanted.value));
        let moved: Vec<String> = wanted.forward.keys().cloned().collect();
        let all = self.page.manifest().services().len();
        let since = |name: &String, then: Instant| self.production.has_since(name, field, then);
        let under_way = moved.iter().filter(|name| !since(name, now)).count();
        let mut found = None;
        if let Some(most) = policy
            .max_in_flight
            .filter(|most| under_way > *most as usize)
        {
            found = Some((
                "R18",
                format!("{under_way} targets are under way, and at most {most} may"),
            ));
        }
        let canary = policy
            .canary
            .iter()
            .map(|it| (it.count as usize, it.bake_secs));
        let waves = policy
            .waves
            .iter()
            .map(|it| (it.upto.of(all), it.bake_secs));
        for (count, bake) in canary.chain(waves) {
            let then = Instant(
                now.0
                    .saturating_sub(Duration::from_secs(bake).as_nanos() as u64),
            );
            let baked = moved
                .iter()
                .filter(|name| !new.contains(*name) && since(name, then))
                .count();
            if moved.len() > count && baked < count {
                let many = moved.len();
                found = Some((
                    "R21",
                    format!("{many} targets move, and {baked} of {count} have baked for {bake} s"),
                ));
            }
        }
        if let Some((rule, why)) = found {
            let name = self.judge.wanted[nth].change.name.clone();
            self.violated(rule, format!("{name} at {now:?}: {why}"));
        }
    }

    /// Notes which versions have baked in the first stage of the train, before an edit is made.
    fn note_ripe(&mut self, now: Instant) {
        if !self.train {
            return;
        }
        let manifest = self.page.manifest();
        let bake = Duration::from_secs(manifest.policies[POLICIES[0]].bake_secs);
        let then = Instant(now.0.saturating_sub(bake.as_nanos() as u64));
        let services = manifest.services();
        let first: Vec<&String> = services.keys().take(FIRST as usize).collect();
        let has = |name: &String, version: u64| {
            let last = self.judge.writers.get(&(name.clone(), "version"));
            let by_hand = last.is_some_and(|(_, writer)| *writer == Writer::Person);
            by_hand || self.production.has_since(name, ("version", version), then)
        };
        let is_ripe = |version: &u64| first.iter().all(|name| has(name, *version));
        let offered = self.judge.offered.iter().copied();
        let ripe: Vec<u64> = offered.filter(is_ripe).collect();
        self.judge.ripe.extend(ripe);
    }

    /// R104: a version enters the second stage when it has baked in the first one.
    fn judge_train(&mut self, now: Instant, name: &str, (was, to): (u64, u64)) {
        self.count("train");
        let services = self.page.manifest().services();
        let is_first = services.keys().take(FIRST as usize).any(|it| it == name);
        self.judge.before.insert((name.to_owned(), to), was);
        if !is_first && !self.judge.ripe.contains(&to) {
            let why = format!("version {to} enters the second stage at {now:?}, and is not ripe");
            self.violated("R104", why);
        }
    }

    /// Judges the text and production when all changes have ended.
    pub(in crate::changes) fn judge_end(&mut self) {
        self.judge.ended = true;
        let services = self.page.manifest().services();
        for nth in 0..self.judge.wanted.len() {
            let wanted = &self.judge.wanted[nth];
            let (field, value) = (wanted.field, wanted.value);
            let (sick, name) = (wanted.is_sick(), wanted.change.name.clone());
            let all = wanted.values.clone();
            let is_ours = |it: &&String| all.contains(&services[*it].field(field));
            let has = |it: &&String| services[*it].field(field) == value;
            let set: Vec<String> = services.keys().filter(has).cloned().collect();
            match wanted.end.clone() {
                Some(How::Completed) => {
                    self.count("completed");
                    if sick && !set.is_empty() {
                        self.violated("R21", format!("{name} is complete, and {set:?} are sick"));
                    }
                    self.judge_complete(nth, &set);
                }
                end => {
                    self.count(end.map_or("never began", |_| "rolled back"));
                    let own = |it: &&String| {
                        let last = self.judge.writers.get(&((*it).clone(), field));
                        last.is_some_and(|(_, writer)| *writer == Writer::Change(nth))
                    };
                    let ours = services.keys().filter(is_ours);
                    let left: Vec<&String> = ours.filter(own).collect();
                    if !left.is_empty() {
                        let why = format!("{name} did not complete, and {left:?} have its value");
                        self.violated("R22", why);
                    }
                }
            }
        }
        self.judge_train_end();
    }

    /// R101, R18: all services that were there when a change began, or came in time, have its value, or one that was set later.
    fn judge_complete(&mut self, nth: usize, set: &[String]) {
        let wanted = &self.judge.wanted[nth];
        let Some(first) = wanted.requested.first().copied() else {
            return;
        };
        let services = self.page.manifest().services();
        let is_known = |value: u64| wanted.before.values().any(|it| *it == value);
        // The control plane may take it for a person who has set its fields.
        let unseen = |came: Option<&Instant>, name: &String| {
            let went = self.judge.went.get(name);
            came.zip(went)
                .is_some_and(|(came, went)| came.since(*went) < UNSEEN)
        };
        let skipped = services.iter().filter(|(name, service)| {
            let came = self.judge.came.get(*name).filter(|came| **came >= first);
            let late = came.is_some_and(|came| wanted.last.is_none_or(|last| last < *came + SOON));
            let other = came.is_some() && !is_known(service.field(wanted.field));
            let last = self.judge.writers.get(&((*name).clone(), wanted.field));
            let own = Writer::Change(nth);
            let later = last.is_some_and(|(at, writer)| *at >= first && *writer != own);
            !late && !other && !later && !unseen(came, name) && !set.contains(*name)
        });
        let skipped: Vec<&String> = skipped.map(|(name, _)| name).collect();
        if !skipped.is_empty() {
            let why = format!("{} is complete without {skipped:?}", wanted.change.name);
            self.violated("R101", why);
        }
    }

    /// R104: the newest version is everywhere.
    fn judge_train_end(&mut self) {
        let Some(newest) = self.judge.newest else {
            return;
        };
        let services = self.page.manifest().services();
        let mut other = services.iter().filter(|(_, it)| it.version != newest);
        if let Some((name, service)) = other.next() {
            let why = format!(
                "{name} has version {}, and the newest is {newest}",
                service.version
            );
            self.violated("R104", why);
        }
    }

    /// Notes a violation if the run has not come to its end.
    pub(in crate::changes) fn judge_no_end(&mut self) {
        if !self.judge.ended && self.judge.violation.is_none() {
            self.violated("L7", "the changes do not come to an end");
        }
    }
}
