//! The invariants, judged by the calls that production saw, the store between two processes, and the processes'
//! reports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    DEADLINE,
    child::{Report, Stands},
    intent::Intent,
    production::{Production, Thing},
    remembered::{Remembered, Sealed},
};

/// Maximum lag of the durable clock of the ownership when a push is recorded as open.
const BEHIND: Duration = Duration::from_millis(100);
/// Maximum time owned between the end of the wait for a push and the durable result of the diff that follows.
const LOOK: Duration = DEADLINE.checked_div(2).unwrap();

/// The state that the invariants need, and their checks.
pub(crate) struct Laws {
    production: Production,
    lives: u64,
    pub(crate) kills: u64,
    /// Running time of all processes together.
    lived: Duration,
    /// Time enforced according to the processes' own clocks, and the part of it that the partition's durable clock
    /// counted.
    enforced: Duration,
    counted: Duration,
    /// Highest durable value of that clock so far.
    owned: Duration,
    /// Digest of every incarnation that was seen in force, by number.
    sealed: BTreeMap<u32, String>,
    /// Durable state that the newest process found, and its last report.
    found: Option<Remembered>,
    stands: Option<Stands>,
    /// Pushes that were open when the newest process began, each with the end of its wait on the durable clock.
    open: BTreeMap<String, Duration>,
    /// Value of the durable clock until which a process was asked to stop, and therefore started no new diffs.
    stopping: Duration,
    asked_to_stop: bool,
    /// Assets with a push whose outcome a killed process cannot know.
    begun: BTreeSet<String>,
    /// Number of pushes that were left with unknown outcome, and number of later starts that found one of them again.
    unknown: u64,
    carried: u64,
    stops: u64,
}

impl Laws {
    pub(crate) fn new(production: Production) -> Self {
        Self {
            production,
            lives: 0,
            kills: 0,
            lived: Duration::ZERO,
            enforced: Duration::ZERO,
            counted: Duration::ZERO,
            owned: Duration::ZERO,
            sealed: BTreeMap::new(),
            found: None,
            stands: None,
            open: BTreeMap::new(),
            stopping: Duration::ZERO,
            asked_to_stop: false,
            begun: BTreeSet::new(),
            unknown: 0,
            carried: 0,
            stops: 0,
        }
    }

    /// Number of processes that have ended.
    pub(crate) fn lives(&self) -> u64 {
        self.lives
    }

    pub(crate) fn take_in(&mut self, report: Report) {
        match report {
            Report::Found(found) => {
                self.check_durable(&found);
                self.found = Some(found);
            }
            Report::Stands(stands) => {
                self.check_sealed(stands.latest.as_ref());
                self.require(stands.owned >= self.owned, || {
                    format!(
                        "the durable clock went back from {:?} to {:?}",
                        self.owned, stands.owned
                    )
                });
                self.owned = stands.owned;
                if self.stands.is_none() {
                    self.check_unknown(&stands.unknown);
                }
                self.stands = Some(stands);
            }
        }
        let broken = self.production.broken();
        self.require(broken.is_empty(), || broken.join("\n"));
    }

    fn require(&self, holds: bool, broken: impl FnOnce() -> String) {
        assert!(holds, "process {}: {}", self.lives, broken());
    }

    /// Checks the durable state while no control plane runs.
    fn check_durable(&mut self, found: &Remembered) {
        self.check_sealed(found.latest.as_ref());
        let (was, owned, lived) = (self.owned, found.owned, self.lived);
        self.require(owned >= was, || {
            format!("the clock of the ownership went back from {was:?} to {owned:?}")
        });
        self.require(owned <= lived, || {
            format!("the durable clock counted {owned:?} owned, but all processes together ran for {lived:?}")
        });
        self.owned = owned;
        if std::mem::take(&mut self.asked_to_stop) {
            self.stopping = owned;
        }
        for (asset, until) in &found.open {
            self.check_wait(asset, *until, owned);
        }
        let begun = std::mem::take(&mut self.begun);
        let lost: Vec<_> = begun
            .iter()
            .filter(|it| !found.open.contains_key(*it))
            .collect();
        self.require(lost.is_empty(), || {
            format!("pushes of {lost:?} began with unknown outcome, but are not recorded as open")
        });
        self.open = found.open.clone();
    }

    /// Checks that all pushes reported as unknown at first were recorded as open.
    fn check_unknown(&self, unknown: &[String]) {
        let mut others = unknown.iter().filter(|it| !self.open.contains_key(*it));
        let other = others.next();
        self.require(other.is_none(), || {
            format!("a push of {other:?} is unknown, but was not recorded as open")
        });
    }

    /// R13: a push of unknown outcome is waited for until its deadline, also across takeovers, and is resolved then.
    fn check_wait(&mut self, asset: &str, until: Duration, owned: Duration) {
        let before = self.open.get(asset).copied();
        let same = before.is_some_and(|before| until < before + DEADLINE);
        match same {
            true => self.carried += 1,
            false => self.unknown += 1,
        }
        let left = until.saturating_sub(owned);
        self.require(left <= DEADLINE + BEHIND, || {
            format!("the wait for a push of {asset} has {left:?} left, more than a deadline")
        });
        let over = owned.saturating_sub(until.max(self.stopping));
        self.require(over <= LOOK, || {
            format!("the wait for a push of {asset} ended {over:?} ago, and its outcome is still unknown")
        });
        let most = before.unwrap_or_default().max(owned);
        self.require(!same || until <= most, || {
            format!("the end of the wait for a push of {asset} moved from {before:?} to {until:?}")
        });
    }

    /// Checks that the incarnation in force never gets older, and that its digest never changes.
    fn check_sealed(&mut self, latest: Option<&Sealed>) {
        let newest = self.sealed.last_key_value().map(|(no, _)| *no);
        let no = latest.map(|latest| latest.no);
        self.require(no >= newest, || {
            format!("{no:?} is in force after {newest:?}")
        });
        let Some(latest) = latest else { return };
        let digest = self.sealed.entry(latest.no);
        let digest = digest.or_insert_with(|| latest.digest.clone()).clone();
        self.require(digest == latest.digest, || {
            format!("{latest:?} had the digest {digest} before")
        });
    }

    pub(crate) fn asked_to_stop(&mut self) {
        self.asked_to_stop = true;
    }

    pub(crate) fn killed(&mut self, moment: Instant, lived: Duration) {
        self.kills += 1;
        let calls = self.production.calls().into_iter();
        let unknown = calls.filter(|(_, call)| call.life == self.lives && call.is_unknown(moment));
        self.begun.extend(unknown.map(|(asset, _)| asset));
        self.ended(lived);
    }

    pub(crate) fn ended(&mut self, lived: Duration) {
        self.lives += 1;
        self.lived += lived;
        if let (Some(found), Some(stands)) = (self.found.take(), self.stands.take()) {
            self.enforced += stands.enforced;
            self.counted += stands.owned.saturating_sub(found.owned);
        }
    }

    /// Checks the state after an orderly stop: no push is unknown that ended while the process waited for it.
    pub(crate) fn stopped(&mut self, left: &Remembered) {
        self.stops += 1;
        let calls = self.production.calls();
        for (asset, until) in &left.open {
            let inherited = self.open.get(asset).is_some_and(|before| until <= before);
            let call = calls.get(asset);
            let call =
                call.filter(|call| call.life + 1 == self.lives && !call.is_answered_in_time());
            self.require(inherited || call.is_some(), || {
                format!("after an orderly stop, a push of {asset} is unknown although it ended before the stop")
            });
        }
        self.check_durable(left);
    }

    /// Whether production is as intended, and the control plane reports so.
    pub(crate) fn is_settled(&self, intent: &Intent) -> bool {
        let Some(stands) = &self.stands else {
            return false;
        };
        let things = self.production.things();
        let rest = things
            .keys()
            .filter(|asset| !intent.versions.contains_key(*asset));
        stands.unsettled == 0
            && stands.unknown.is_empty()
            && stands.assets as usize == intent.versions.len()
            && wrong(intent, &things).is_empty()
            && rest.into_iter().all(|asset| stands.orphans.contains(asset))
    }

    /// Describes what is missing for that.
    pub(crate) fn unsettled(&self, intent: &Intent) -> String {
        let wrong = wrong(intent, &self.production.things());
        format!(
            "not as intended: {wrong:?}; the process reports {:?}",
            self.stands
        )
    }

    /// Checks the final state: production, the store and the manifest agree.
    pub(crate) fn at_the_end(
        &self,
        left: &Remembered,
        in_force: &BTreeMap<String, u64>,
        intent: &Intent,
    ) {
        self.require(left.open.is_empty(), || {
            format!("pushes of {:?} are unknown", left.open)
        });
        self.require(*in_force == intent.versions, || {
            "the incarnation in force differs from the manifest".into()
        });
        let wrong = wrong(intent, &self.production.things());
        self.require(wrong.is_empty(), || format!("not as intended: {wrong:?}"));
        let (enforced, counted) = (self.enforced, self.counted);
        self.require(counted >= enforced / 4, || {
            format!("the durable clock counted only {counted:?} of {enforced:?} owned")
        });
        self.require(
            self.unknown > self.kills && self.carried > self.kills,
            || format!("too few pushes were left unknown for a meaningful result: {self}"),
        );
    }
}

/// Assets whose state in production differs from the intended one.
fn wrong<'a>(intent: &'a Intent, things: &BTreeMap<String, Thing>) -> Vec<&'a String> {
    let wrong =
        |(asset, version): &(&String, &u64)| things.get(*asset) != Some(&Thing::At(**version));
    let all = intent.versions.iter();
    all.filter(wrong).map(|(asset, _)| asset).collect()
}

impl fmt::Display for Laws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills, {} orderly stops, {} incarnations, {} pushes left unknown and found so {} times more, {:?} owned, {:?} counted",
            self.kills,
            self.stops,
            self.sealed.len(),
            self.unknown,
            self.carried,
            self.enforced,
            self.counted,
        )
    }
}
