//! What must hold, judged by what production saw, what the directory holds between two processes, and what these say.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    DEADLINE,
    child::{Said, Stands},
    intent::Intent,
    production::{Production, Thing},
    remembered::{Remembered, Sealed},
};

/// How far the durable clock of the ownership may be behind when a push is remembered as open.
const BEHIND: Duration = Duration::from_millis(100);
/// In so much time owned a push whose wait is over is looked at, and what became of it is durable.
const LOOK: Duration = DEADLINE.checked_div(2).unwrap();

/// See the module.
pub(crate) struct Laws {
    production: Production,
    lives: u64,
    pub(crate) kills: u64,
    /// From start to end, all lives together.
    lived: Duration,
    /// What enforcement took of that by its processes' clocks, and what of it the partition's own clock counted.
    enforced: Duration,
    counted: Duration,
    /// The most that was seen durable of that clock.
    owned: Duration,
    /// By number, every incarnation that was seen in force.
    sealed: BTreeMap<u32, String>,
    /// What the newest life found, and what it said last.
    found: Option<Remembered>,
    stands: Option<Stands>,
    /// Pushes that were open when the newest life began, each with when its wait is over.
    open: BTreeMap<String, Duration>,
    /// Until then, on that clock, a process was asked to stop and looked at nothing new.
    stopping: Duration,
    asked_to_stop: bool,
    /// Assets with a push that began, and of which a process that was killed cannot know how it ended.
    begun: BTreeSet<String>,
    /// How many pushes were left unknown, and how often one was found so at a start.
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

    /// How many lives have ended.
    pub(crate) fn lives(&self) -> u64 {
        self.lives
    }

    pub(crate) fn hear(&mut self, said: Said) {
        match said {
            Said::Found(found) => {
                self.remembers(&found);
                self.found = Some(found);
            }
            Said::Stands(stands) => {
                self.seals(stands.latest.as_ref());
                self.law(stands.owned >= self.owned, || {
                    format!(
                        "the clock went back from {:?} to {:?}",
                        self.owned, stands.owned
                    )
                });
                self.owned = stands.owned;
                if self.stands.is_none() {
                    self.knows(&stands.unknown);
                }
                self.stands = Some(stands);
            }
        }
        let broken = self.production.broken();
        self.law(broken.is_empty(), || broken.join("\n"));
    }

    fn law(&self, holds: bool, broken: impl FnOnce() -> String) {
        assert!(holds, "life {}: {}", self.lives, broken());
    }

    /// What is durable while no control plane runs.
    fn remembers(&mut self, found: &Remembered) {
        self.seals(found.latest.as_ref());
        let (was, owned, lived) = (self.owned, found.owned, self.lived);
        self.law(owned >= was, || {
            format!("the clock of the ownership went back from {was:?} to {owned:?}")
        });
        self.law(owned <= lived, || {
            format!("it counted {owned:?} owned in lives of {lived:?} together")
        });
        self.owned = owned;
        if std::mem::take(&mut self.asked_to_stop) {
            self.stopping = owned;
        }
        for (asset, until) in &found.open {
            self.waits(asset, *until, owned);
        }
        let begun = std::mem::take(&mut self.begun);
        let lost: Vec<_> = begun
            .iter()
            .filter(|it| !found.open.contains_key(*it))
            .collect();
        self.law(lost.is_empty(), || {
            format!("pushes of {lost:?} began, nothing is known of their end, and nothing is remembered of them")
        });
        self.open = found.open.clone();
    }

    /// What is unknown at first is what was remembered.
    fn knows(&self, unknown: &[String]) {
        let mut others = unknown.iter().filter(|it| !self.open.contains_key(*it));
        let other = others.next();
        self.law(other.is_none(), || {
            format!("a push of {other:?} is unknown, and was not remembered")
        });
    }

    /// R13: a push of unknown outcome is waited for until its deadline, over takeovers, and is resolved then.
    fn waits(&mut self, asset: &str, until: Duration, owned: Duration) {
        let before = self.open.get(asset).copied();
        let same = before.is_some_and(|before| until < before + DEADLINE);
        match same {
            true => self.carried += 1,
            false => self.unknown += 1,
        }
        let left = until.saturating_sub(owned);
        self.law(left <= DEADLINE + BEHIND, || {
            format!("{asset} waits for another {left:?} for a push")
        });
        let over = owned.saturating_sub(until.max(self.stopping));
        self.law(over <= LOOK, || {
            format!("the wait for a push of {asset} was over for {over:?}, and it is unknown still")
        });
        let most = before.unwrap_or_default().max(owned);
        self.law(!same || until <= most, || {
            format!("the wait for a push of {asset} was to end at {before:?}, and now at {until:?}")
        });
    }

    /// What is sealed stays, and is what it was.
    fn seals(&mut self, latest: Option<&Sealed>) {
        let newest = self.sealed.last_key_value().map(|(no, _)| *no);
        let no = latest.map(|latest| latest.no);
        self.law(no >= newest, || {
            format!("{no:?} is in force after {newest:?}")
        });
        let Some(latest) = latest else { return };
        let digest = self.sealed.entry(latest.no);
        let digest = digest.or_insert_with(|| latest.digest.clone()).clone();
        self.law(digest == latest.digest, || {
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

    /// What an orderly stop leaves: no push of its own that ended while it waited.
    pub(crate) fn stopped(&mut self, left: &Remembered) {
        self.stops += 1;
        let calls = self.production.calls();
        for (asset, until) in &left.open {
            let inherited = self.open.get(asset).is_some_and(|before| until <= before);
            let call = calls.get(asset);
            let call =
                call.filter(|call| call.life + 1 == self.lives && !call.is_answered_in_time());
            self.law(inherited || call.is_some(), || {
                format!("after an orderly stop a push of {asset} is unknown that ended meanwhile")
            });
        }
        self.remembers(left);
    }

    /// Whether production is as intended, and the control plane knows.
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

    /// What is missing for that.
    pub(crate) fn unsettled(&self, intent: &Intent) -> String {
        let wrong = wrong(intent, &self.production.things());
        format!("not as intended: {wrong:?}; it says {:?}", self.stands)
    }

    /// The end of the story: production, the directory and the manifest say the same.
    pub(crate) fn at_the_end(
        &self,
        left: &Remembered,
        in_force: &BTreeMap<String, u64>,
        intent: &Intent,
    ) {
        self.law(left.open.is_empty(), || {
            format!("{:?} are unknown", left.open)
        });
        self.law(*in_force == intent.versions, || {
            "something else is in force".into()
        });
        let wrong = wrong(intent, &self.production.things());
        self.law(wrong.is_empty(), || format!("not as intended: {wrong:?}"));
        let (enforced, counted) = (self.enforced, self.counted);
        self.law(counted >= enforced / 4, || {
            format!("of {enforced:?} owned only {counted:?} were counted")
        });
        self.law(
            self.unknown > self.kills && self.carried > self.kills,
            || format!("too little happened for this to mean anything: {self}"),
        );
    }
}

/// Assets that production has otherwise than intended.
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
