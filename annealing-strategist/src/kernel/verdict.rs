//! What a rollout remembers of verdicts: bounded, the worst first, so that its record stays small however many targets
//! it has.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{Finding, Health, Judgement};

use crate::record::{Lasting, Rollout, cut};

/// Of how many findings the newest verdict is remembered with, and an older one.
const FINDINGS: usize = 32;
const OLD_FINDINGS: usize = 8;

/// How many verdicts that something followed from are remembered.
const VERDICTS: usize = 8;

/// The longest summary, in bytes.
const SUMMARY: usize = 500;

/// How much evidence the newest verdict is remembered with, and an older one, in bytes of all findings.
const EVIDENCE: usize = 64 << 10;
const OLD_EVIDENCE: usize = 16 << 10;

/// How many findings a reason names.
const NAMED: usize = 5;

const FLAG: &str =
    "nobody can tell whether it is healthy; look at it, then promote it or roll it back";

impl Rollout {
    /// Takes a verdict in. Says whether it is news that must last.
    pub(super) fn hear(&mut self, at: Timestamp, health: Health, deadline: Duration) -> bool {
        let before = self.health.as_ref().map(|health| health.judgement);
        let changed = before != Some(health.judgement);
        let unknown = health.judgement == Judgement::Unknown;
        let began = Lasting {
            since: self.watched,
            flagged: false,
        };
        self.unknown = unknown.then(|| self.unknown.unwrap_or(began));
        if changed {
            self.note(at, described(&health), None);
        }
        self.health = Some(kept(health, FINDINGS, EVIDENCE));
        if changed {
            self.keep_verdict();
        }
        self.flag(at, deadline) || changed
    }

    /// What the newest verdict says is looked up later: something followed from it.
    pub(super) fn keep_verdict(&mut self) {
        let Some(health) = self.health.clone() else {
            return;
        };
        let health = kept(health, OLD_FINDINGS, OLD_EVIDENCE);
        if self.verdicts.last() != Some(&health) {
            self.verdicts.push(health);
        }
        if self.verdicts.len() > VERDICTS {
            self.verdicts.remove(0);
        }
    }

    /// Says so once, each time that nobody could tell for long.
    fn flag(&mut self, at: Timestamp, deadline: Duration) -> bool {
        let watched = self.watched;
        let long = |it: &&mut Lasting| watched.saturating_sub(it.since) >= deadline;
        let Some(unknown) = self.unknown.as_mut().filter(long) else {
            return false;
        };
        let news = !std::mem::replace(&mut unknown.flagged, true);
        if news {
            self.note(at, FLAG, None);
        }
        news
    }
}

/// A verdict with the worst of its findings, and whole evidence of as many of them as fit, the worst first.
fn kept(mut health: Health, most: usize, mut room: usize) -> Health {
    health
        .findings
        .sort_by_key(|finding| std::cmp::Reverse(finding.judgement));
    health.findings.truncate(most);
    for finding in &mut health.findings {
        cut(&mut finding.summary, SUMMARY);
        let size = finding.evidence.to_string().len();
        match room.checked_sub(size) {
            Some(left) => room = left,
            None => finding.evidence = format!("{size} bytes, too long to be kept").into(),
        }
    }
    health
}

fn described(health: &Health) -> String {
    match health.judgement {
        // Of what has not settled nobody can say more.
        Judgement::Healthy if health.findings.is_empty() => "nothing speaks against it".to_owned(),
        Judgement::Healthy => "healthy".to_owned(),
        Judgement::Unknown => format!("health is unknown: {}", reasons(health)),
        Judgement::Unhealthy => format!("unhealthy: {}", reasons(health)),
    }
}

/// What the worst findings say.
pub(super) fn reasons(health: &Health) -> String {
    let worst = health.findings.iter();
    let worst: Vec<&Finding> = worst
        .filter(|finding| finding.judgement == health.judgement)
        .collect();
    let said = worst.iter().take(NAMED);
    let mut said: Vec<String> = said
        .map(|finding| format!("{}: {}", finding.validator, finding.summary))
        .collect();
    if worst.len() > NAMED {
        said.push(format!("and {} more", worst.len() - NAMED));
    }
    match said.is_empty() {
        true => "no validator says why".to_owned(),
        false => said.join("; "),
    }
}
