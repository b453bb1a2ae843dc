//! Decisions: records of what enforcement did with an asset, and why. For operators and audits.

use jiff::Timestamp;
use plugin_sdk::{By, Cause, Delay, FencingToken};
use prodspec_model::{Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

use crate::{limit, record::Record};

/// Longest text that is kept whole, in bytes.
const TEXT: usize = 4 << 10;
/// Longest reason of a delay, and longest name of a check, in bytes.
const REASON: usize = 1 << 10;
/// Number of operator commands kept in one decision, and bytes kept of each of their texts. The records of the commands
/// keep everything.
const WORDS: usize = 2;
const WORD: usize = 160;
/// Maximum size of all delays of one decision together, in bytes of JSON.
const DELAYS: usize = 32 << 10;

/// Reason why an asset was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trigger {
    /// A newer incarnation changed the asset.
    IntentChanged,
    /// The pin of the asset moved.
    PinMoved,
    /// The wait after a failure is over.
    RetryDue,
    /// The plugin asked to look at the asset again now.
    LookAgain,
    /// The regular scan of all assets reached this one.
    DriftScan,
    /// An asset for which this one waited has settled.
    DependencySettled,
    /// An operator asked for it.
    Asked,
}

/// One action of the enforcement of an asset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Time at which the decision was made.
    pub at: Timestamp,
    /// Reason why the asset was looked at.
    pub trigger: Trigger,
    /// Cause that the push has or would have.
    pub cause: Cause,
    /// Incarnation at which the asset was enforced.
    pub incarnation: IncarnationNo,
    /// Fencing token of the owner that decided.
    pub token: FencingToken,
    /// Digest of the change in question; `None` if there was none.
    pub change: Option<Digest>,
    /// The change in one line.
    pub summary: String,
    /// What the enforcer decided or observed.
    pub outcome: Outcome,
    /// Operator commands that let a push through. Empty if it needed none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_by: Vec<AllowedBy>,
}

/// An operator's command without which a push would not have been admitted. That push uses it up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedBy {
    /// Kind of the command: `approval`, or `override of` and the name of a check.
    pub word: String,
    /// The operator who gave the command, and the reason.
    #[serde(flatten)]
    pub by: By,
    /// Time at which the command was given.
    pub at: Timestamp,
}

impl Decision {
    /// Maximum size of one decision in bytes, so that [`Decisions::KEPT`] of them fit into a record.
    pub const BYTES: usize = limit::VALUE / Decisions::KEPT - 2;

    /// Shortens texts of plugins, checks and operators until the decision fits into [`Decision::BYTES`].
    fn cut(&mut self) {
        self.summary = excerpt(std::mem::take(&mut self.summary));
        self.allowed_by.truncate(WORDS);
        for word in &mut self.allowed_by {
            cut_by(&mut word.by);
            word.word = cut_to(std::mem::take(&mut word.word), WORD);
        }
        match &mut self.outcome {
            Outcome::Failed(why) | Outcome::Held(why) => *why = excerpt(std::mem::take(why)),
            Outcome::Delayed(delays) => cut_delays(delays),
            Outcome::Command { what, by } => {
                *what = excerpt(std::mem::take(what));
                cut_by(by);
            }
            Outcome::Admitted | Outcome::Pushed => {}
        }
    }
}

/// The decision of an iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The push was admitted and may start.
    Admitted,
    /// The push has ended successfully.
    Pushed,
    /// The push failed, or its outcome is unknown; with the reason.
    Failed(String),
    /// Checks delay the push, for these reasons.
    Delayed(Vec<Delay>),
    /// Something other than a check holds the push; with the reason.
    Held(String),
    /// An operator gave a command about the asset.
    Command {
        /// The command in one line.
        what: String,
        /// The operator who gave the command, and the reason.
        #[serde(flatten)]
        by: By,
    },
}

/// The last decisions about an asset, oldest first. Decisions that a newer program version wrote and this version
/// cannot read are kept unchanged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decisions(Vec<Kept>);

/// A stored decision, readable or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Kept {
    Read(Box<Decision>),
    Unread(serde_json::Value),
}

/// The fields that every version of a decision has.
#[derive(Deserialize)]
struct Citing {
    incarnation: IncarnationNo,
}

impl FromIterator<Decision> for Decisions {
    fn from_iter<I: IntoIterator<Item = Decision>>(decisions: I) -> Self {
        let read = |decision| Kept::Read(Box::new(decision));
        Self(decisions.into_iter().map(read).collect())
    }
}

impl Decisions {
    /// Number of decisions kept per asset.
    pub const KEPT: usize = 16;

    /// Adds a decision, shortened to [`Decision::BYTES`], and drops the oldest beyond [`Decisions::KEPT`]. So the
    /// record always fits into the store.
    pub fn push(&mut self, mut decision: Decision) {
        decision.cut();
        self.0.push(Kept::Read(Box::new(decision)));
        if self.0.len() > Self::KEPT {
            self.0.drain(..self.0.len() - Self::KEPT);
        }
    }

    /// Puts `older` decisions before these, and drops the oldest beyond [`Decisions::KEPT`].
    pub fn put_before(&mut self, older: Self) {
        let newer = std::mem::replace(self, older);
        self.0.extend(newer.0);
        self.0.drain(..self.0.len().saturating_sub(Self::KEPT));
    }

    /// Whether no decision is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The decisions that this program version can read, oldest first.
    pub fn read(&self) -> impl Iterator<Item = &Decision> {
        self.0.iter().filter_map(|kept| match kept {
            Kept::Read(decision) => Some(&**decision),
            Kept::Unread(_) => None,
        })
    }

    /// Number of kept decisions that this program version cannot read.
    pub fn unread(&self) -> usize {
        let unread = |kept: &&Kept| matches!(kept, Kept::Unread(_));
        self.0.iter().filter(unread).count()
    }

    /// Incarnations that the decisions refer to, one item per decision.
    pub fn cites(&self) -> impl Iterator<Item = IncarnationNo> {
        self.0.iter().filter_map(|kept| match kept {
            Kept::Read(decision) => Some(decision.incarnation),
            Kept::Unread(value) => Some(Citing::deserialize(value).ok()?.incarnation),
        })
    }
}

impl Record for Decisions {
    const KIND: &'static str = "decisions";
}

/// Shortens a text from outside, such as a plugin's error, to about 4 KiB. Shorter texts are returned unchanged; the
/// end of a shortened one says how long it was.
///
/// ```
/// use control_plane_store::records::excerpt;
/// assert_eq!(excerpt("no such cell".into()), "no such cell");
/// assert!(excerpt("<html>".repeat(1_000_000)).len() < 5_000);
/// ```
pub fn excerpt(text: String) -> String {
    cut_to(text, TEXT)
}

fn cut_by(by: &mut By) {
    by.who = cut_to(std::mem::take(&mut by.who), WORD);
    by.why = cut_to(std::mem::take(&mut by.why), WORD);
}

fn cut_to(mut text: String, most: usize) -> String {
    let bytes = text.len();
    if bytes > most {
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!("... ({bytes} bytes)"));
    }
    text
}

/// Keeps the first delays, and says in the last one how many more there were.
fn cut_delays(delays: &mut Vec<Delay>) {
    let (mut bytes, mut kept) = (0, 0);
    for delay in delays.iter_mut() {
        if delay.check.as_str().len() > REASON {
            delay.check = cut_to(delay.check.to_string(), REASON).as_str().into();
        }
        delay.reason = cut_to(std::mem::take(&mut delay.reason), REASON);
        let evidence = delay.evidence.to_string().len();
        if evidence > TEXT {
            delay.evidence = format!("left out: {evidence} bytes").into();
        }
        bytes += serde_json::to_vec(delay).map_or(DELAYS, |json| json.len());
        if bytes > DELAYS {
            break;
        }
        kept += 1;
    }
    let more = delays.len() - kept;
    delays.truncate(kept);
    if let Some(last) = delays.last_mut().filter(|_| more > 0) {
        last.reason.push_str(&format!(" (and {more} more delays)"));
    }
}

#[cfg(test)]
mod tests {
    use plugin_sdk::Recheck;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Batch, record};

    fn decision(outcome: Outcome) -> Decision {
        Decision {
            at: Timestamp::MAX,
            trigger: Trigger::IntentChanged,
            cause: Cause::Emergency,
            incarnation: IncarnationNo(u32::MAX),
            token: FencingToken(u64::MAX),
            change: Some(Digest([255; 32])),
            summary: "\0".repeat(100_000),
            outcome,
            allowed_by: vec![
                AllowedBy {
                    word: "\0".repeat(10_000),
                    by: By::new("\0".repeat(10_000), "\0".repeat(10_000)),
                    at: Timestamp::MAX,
                };
                20
            ],
        }
    }

    fn delay(reason: &str, evidence: Value) -> Delay {
        let recheck = Recheck::WhenSettled("x".repeat(253).parse().unwrap());
        Delay::new(reason, recheck).check(reason).because(evidence)
    }

    #[test]
    fn a_record_fits_however_long_the_texts_are() {
        let long = "\u{1}\u{fffd}".repeat(50_000);
        let told = Outcome::Command {
            what: long.clone(),
            by: By::new(long.clone(), long.clone()),
        };
        let said = [
            told,
            Outcome::Failed(long.clone()),
            Outcome::Held(long.clone()),
            Outcome::Delayed(vec![delay(&long, json!({ "page": long })); 2]),
            Outcome::Delayed(vec![delay(&"no".repeat(400), json!(vec!["x"; 1000])); 1000]),
        ];
        for outcome in said {
            let mut decisions = Decisions::default();
            for _ in 0..20 {
                decisions.push(decision(outcome.clone()));
            }
            assert_eq!(decisions.0.len(), Decisions::KEPT);
            let partition = "a".parse().unwrap();
            let write = record::put(&partition, "x", &decisions).unwrap();
            Batch::new().write(write).check().unwrap();
        }
    }

    #[test]
    fn the_first_of_many_delays_are_kept_and_the_rest_is_counted() {
        let mut decisions = Decisions::default();
        let many = vec![delay("it must shrink first", json!({"uses": 60})); 1000];
        decisions.push(decision(Outcome::Delayed(many)));
        let Outcome::Delayed(kept) = &decisions.read().next().unwrap().outcome else {
            panic!("{decisions:?}");
        };
        let more = format!("(and {} more delays)", 1000 - kept.len());
        assert!(kept.len() > 50 && kept[kept.len() - 1].reason.ends_with(&more));
        assert_eq!(kept[0].evidence, json!({"uses": 60}));
    }
}
