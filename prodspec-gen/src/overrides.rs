//! Overrides of guards and external validators. Each has who, why and when, lets one seal pass, and is never deleted:
//! the seal that uses it marks it.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use plugin_sdk::{BoxError, By, Problems};
use prodspec_model::{Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

/// Default lifetime of an override.
const HOLDS: Duration = Duration::from_secs(24 * 3600);

/// An operator's command that one guard or external validator lets one change or content pass, once. Recorded under
/// guard, digest and time.
///
/// ```
/// use plugin_sdk::By;
/// use prodspec_gen::SealOverride;
/// use prodspec_model::Digest;
///
/// let now = "2026-01-01T00:00:00Z".parse()?;
/// let by = By::new("ada", "the service moved");
/// let word = SealOverride::new("shrink-guard", Digest::of(b"change"), by, now, None);
/// assert!(word.holds(now));
/// assert!(!word.holds("2026-01-02T00:00:00Z".parse()?), "it expires after 24 hours");
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealOverride {
    /// The name of the guard or external validator that is overridden.
    pub guard: String,
    /// The digest of the change or content that can pass, as named in the guard's problem.
    pub digest: Digest,
    /// The operator who gives the override, and the reason.
    #[serde(flatten)]
    pub by: By,
    /// Time at which the command was given.
    pub at: Timestamp,
    /// Time at which the override expires if it is unused.
    pub until: Timestamp,
    /// The seal that used the override up. `None` means that it is unused.
    #[serde(default)]
    pub used: Option<UsedBySeal>,
}

/// The seal that used up an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedBySeal {
    /// Time of the seal, as in the header of the incarnation.
    pub at: Timestamp,
    /// Number of the incarnation that was sealed.
    pub incarnation: IncarnationNo,
}

impl SealOverride {
    /// Makes an override that is given at `at` and expires at `until`, by default 24 hours later.
    pub fn new(
        guard: impl Into<String>,
        digest: Digest,
        by: By,
        at: Timestamp,
        until: Option<Timestamp>,
    ) -> Self {
        Self {
            guard: guard.into(),
            digest,
            by,
            at,
            until: until.unwrap_or_else(|| at.checked_add(HOLDS).unwrap_or(Timestamp::MAX)),
            used: None,
        }
    }

    /// Whether the override can let a seal pass at `now`: it is unused and has not expired.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.used.is_none() && now < self.until
    }

    /// Whether the override is about this refusal. It must also [hold](Self::holds) to lift it.
    pub fn lifts(&self, refusal: &Refusal) -> bool {
        self.guard == refusal.guard && self.digest == refusal.digest
    }

    /// Whether both overrides are about the same refusal. A repeated override is one override.
    pub(crate) fn repeats(&self, other: &Self) -> bool {
        self.guard == other.guard && self.digest == other.digest
    }

    /// The name of the record.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}/{}", self.guard, self.digest, self.at)
    }
}

/// A refusal by a guard, or by an external validator that failed or did not answer. An override can lift it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The name of the guard or external validator.
    pub guard: String,
    /// The digest of the refused change or content.
    pub digest: Digest,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.guard, self.digest)
    }
}

/// The overrides of a partition that are in force.
#[derive(Debug, Clone, Default)]
pub struct InForce {
    /// The overrides in force, in the order of their records.
    pub overrides: Vec<SealOverride>,
    /// A warning for each record that cannot be read. Its override does not count.
    pub set_aside: Problems,
}

/// The reasons for which an override is refused or cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The last run was not refused by this guard for this digest.
    #[error(
        "the last run was not refused by {asked}, so there is nothing to override; {}",
        fitting(fits)
    )]
    NotRefused {
        /// The guard and the digest of the override.
        asked: Refusal,
        /// The refusals of the last run that an override can lift.
        fits: Vec<Refusal>,
    },
    /// The override would have expired when it is given.
    #[error("the end {until:.0} is in the past; it is {now:.0} now")]
    Expired {
        /// Time at which the override would expire.
        until: Timestamp,
        /// Time at which the override was given.
        now: Timestamp,
    },
    /// The override was not recorded. If the refusal is still there, give the override again.
    #[error("failed to record the override; if `status` still shows the refusal, give it again")]
    NotRecorded(#[source] BoxError),
}

fn fitting(fits: &[Refusal]) -> String {
    let fits: Vec<String> = fits.iter().map(ToString::to_string).collect();
    match fits.is_empty() {
        true => "it was refused by no guard and no external validator".into(),
        false => format!("an override would fit {}", fits.join(", ")),
    }
}

/// Checks that `word` is about one of the `refusals` of the last run, and does not expire before it is given.
///
/// # Errors
/// [`Error::NotRefused`] and [`Error::Expired`].
pub(crate) fn check(word: &SealOverride, refusals: &[Refusal]) -> Result<(), Error> {
    if !refusals.iter().any(|refusal| word.lifts(refusal)) {
        return Err(Error::NotRefused {
            asked: Refusal {
                guard: word.guard.clone(),
                digest: word.digest,
            },
            fits: refusals.to_vec(),
        });
    }
    match word.holds(word.at) {
        true => Ok(()),
        false => Err(Error::Expired {
            until: word.until,
            now: word.at,
        }),
    }
}
