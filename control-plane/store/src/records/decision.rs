//! Decisions: what an iteration did and why, for people and for audits.

use jiff::Timestamp;
use plugin_sdk::{Cause, Delay, FencingToken};
use prodspec_model::{Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

use super::By;
use crate::{limit, record::Record};

/// The longest text that is kept whole, in bytes.
const TEXT: usize = 4 << 10;
/// The longest reason of a delay, and the longest evidence, in bytes.
const REASON: usize = 1 << 10;
/// How many words of people are named in one decision, and how many bytes of each text are kept there. The records of
/// the words themselves keep all.
const WORDS: usize = 2;
const WORD: usize = 160;
/// How much the delays of one decision may take together, in bytes.
const DELAYS: usize = 32 << 10;

/// Why an asset was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trigger {
    /// A newer incarnation changed it.
    IntentChanged,
    /// Its pin moved.
    PinMoved,
    /// A wait after a failure is over.
    RetryDue,
    /// It asked to be looked at again.
    LookAgain,
    /// Its turn in the scan of everything.
    DriftScan,
    /// What it waited for has settled.
    DependencySettled,
    /// A person asked.
    Asked,
}

/// One thing that an iteration did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    pub at: Timestamp,
    /// Why it looked.
    pub trigger: Trigger,
    /// Why it would push.
    pub cause: Cause,
    /// At which incarnation.
    pub incarnation: IncarnationNo,
    /// Under which ownership.
    pub token: FencingToken,
    /// The change in question.
    pub change: Option<Digest>,
    /// The change in one line.
    pub summary: String,
    /// What was decided.
    pub outcome: Outcome,
    /// The words of people that let a push through: what each lifted, who said it and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_by: Vec<AllowedBy>,
}

/// A person's word without which a push would not have been admitted. It is used up by that push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedBy {
    /// What it lifted: `approval`, or `override of` and the name of a check.
    pub word: String,
    /// Who said it, and why.
    #[serde(flatten)]
    pub by: By,
    /// When it was said.
    pub at: Timestamp,
}

impl Decision {
    /// The most bytes that one may take, for [`Decisions::KEPT`] of them to fit into a record.
    pub const BYTES: usize = limit::VALUE / Decisions::KEPT - 2;

    /// Cuts what plugins and checks said, until it fits into [`Decision::BYTES`] whatever they said.
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
            Outcome::Told { what, by } => {
                *what = excerpt(std::mem::take(what));
                cut_by(by);
            }
            Outcome::Admitted | Outcome::Pushed => {}
        }
    }
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Admitted: the push may start.
    Admitted,
    /// The push is done.
    Pushed,
    /// It failed, or its outcome is unknown.
    Failed(String),
    /// It waits, for these reasons.
    Delayed(Vec<Delay>),
    /// It waits for something other than a check.
    Held(String),
    /// A person said something of it.
    Told {
        /// What was said.
        what: String,
        /// Who said it, and why.
        #[serde(flatten)]
        by: By,
    },
}

/// An asset's last decisions, oldest first. Those that a newer version wrote, and this one cannot read, are kept as they
/// are.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decisions(Vec<Kept>);

/// A decision as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Kept {
    Read(Box<Decision>),
    Unread(serde_json::Value),
}

/// What is read of any decision, whatever else it says.
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
    /// How many are kept.
    pub const KEPT: usize = 16;

    /// Adds one, of which nothing takes more than [`Decision::BYTES`], and forgets the oldest beyond
    /// [`Decisions::KEPT`]: the record fits into the store for ever.
    pub fn push(&mut self, mut decision: Decision) {
        decision.cut();
        self.0.push(Kept::Read(Box::new(decision)));
        if self.0.len() > Self::KEPT {
            self.0.drain(..self.0.len() - Self::KEPT);
        }
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that can be read.
    pub fn read(&self) -> impl Iterator<Item = &Decision> {
        self.0.iter().filter_map(|kept| match kept {
            Kept::Read(decision) => Some(&**decision),
            Kept::Unread(_) => None,
        })
    }

    /// How many a newer version wrote, that this one cannot read.
    pub fn unread(&self) -> usize {
        let unread = |kept: &&Kept| matches!(kept, Kept::Unread(_));
        self.0.iter().filter(unread).count()
    }

    /// The incarnations that they speak of, once for each.
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

/// What is kept of a text that somebody outside wrote: all of it, unless it is longer than anybody would read.
///
/// ```
/// use plane_store::records::excerpt;
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

/// Keeps the first delays, and says how many more there were.
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

    fn delay(reason: String, evidence: Value) -> Delay {
        Delay {
            check: reason.as_str().into(),
            reason,
            evidence,
            recheck: Recheck::WhenSettled("x".repeat(253).parse().unwrap()),
        }
    }

    #[test]
    fn whatever_is_said_the_record_fits() {
        let long = "\u{1}\u{fffd}".repeat(50_000);
        let told = Outcome::Told {
            what: long.clone(),
            by: By::new(long.clone(), long.clone()),
        };
        let said = [
            told,
            Outcome::Failed(long.clone()),
            Outcome::Held(long.clone()),
            Outcome::Delayed(vec![delay(long.clone(), json!({ "page": long })); 2]),
            Outcome::Delayed(vec![delay("no".repeat(400), json!(vec!["x"; 1000])); 1000]),
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
    fn of_many_delays_the_first_are_kept_and_the_others_counted() {
        let mut decisions = Decisions::default();
        let many = vec![delay("it must shrink first".into(), json!({"uses": 60})); 1000];
        decisions.push(decision(Outcome::Delayed(many)));
        let Outcome::Delayed(kept) = &decisions.read().next().unwrap().outcome else {
            panic!("{decisions:?}");
        };
        let more = format!("(and {} more delays)", 1000 - kept.len());
        assert!(kept.len() > 50 && kept[kept.len() - 1].reason.ends_with(&more));
        assert_eq!(kept[0].evidence, json!({"uses": 60}));
    }
}
