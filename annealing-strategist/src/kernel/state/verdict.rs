//! The verdicts in the record of a rollout. They are bounded and sorted by severity, so that the record stays small
//! with any number of targets.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{Finding, Health, Judgement};

use crate::record::{Lasting, Rollout, cut};

/// Maximum number of findings kept of the newest verdict, and of an older one.
const FINDINGS: usize = 32;
const OLD_FINDINGS: usize = 8;

/// Maximum number of verdicts kept in the record.
const VERDICTS: usize = 8;

/// Maximum length of a finding's summary, in bytes.
const SUMMARY: usize = 500;

/// Maximum evidence kept of the newest verdict, and of an older one, in bytes over all findings.
const EVIDENCE: usize = 64 << 10;
const OLD_EVIDENCE: usize = 16 << 10;

/// Maximum number of findings that a reason names.
const NAMED: usize = 5;

const FLAG: &str =
    "health has been unknown for too long; inspect the rollout, then promote it or roll it back";

impl Rollout {
    /// Takes in a verdict. Returns whether the record has to be stored for it.
    pub(in crate::kernel) fn hear(
        &mut self,
        at: Timestamp,
        health: Health,
        deadline: Duration,
    ) -> bool {
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

    /// Keeps the newest verdict among those that operators can look up later.
    pub(in crate::kernel) fn keep_verdict(&mut self) {
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

    /// Flags health that has been unknown for `deadline`, once each time. Returns whether it did.
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

/// Returns the verdict with its worst findings. Evidence is kept whole, for as many findings as fit, the worst first.
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
        // Without a settled target only a bad signal is reported, so this is not called healthy.
        Judgement::Healthy if health.findings.is_empty() => "no problem found so far".to_owned(),
        Judgement::Healthy => "healthy".to_owned(),
        Judgement::Unknown => format!("health is unknown: {}", reasons(health)),
        Judgement::Unhealthy => format!("unhealthy: {}", reasons(health)),
    }
}

/// Describes the worst findings of a verdict.
pub(in crate::kernel) fn reasons(health: &Health) -> String {
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
        true => "no validator gave a reason".to_owned(),
        false => said.join("; "),
    }
}
