//! What kind of hour a seed gets.

use std::time::Duration;

#[cfg(feature = "planted-bugs")]
use annealing_enforcer::kernel::Bug;

use crate::{
    faults::{Fault, Rates},
    intent::Plan,
    random::Random,
};

/// What people do, and what makes nothing that they do come late by more than a moment.
const CALM: [Fault; 6] = [
    Fault::EditBad,
    Fault::EditGroup,
    Fault::EditMends,
    Fault::EditPolicy,
    Fault::EditRevises,
    Fault::SelectSlow,
];

/// Tells the stream apart that says how often processes are told to stop.
const STOPS: u64 = 0x7374_6f70;

/// How one seed goes.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// How often what goes wrong.
    pub rates: Rates,
    /// How many enforcers there are.
    pub enforcers: usize,
    /// Every asset is looked at once in this time.
    pub drift_period: Duration,
    /// The time between edits, on average.
    pub edit_every: Duration,
    /// The time between chances for what happens by the clock.
    pub trouble_every: Duration,
    /// How long things go wrong.
    pub trouble: Duration,
    /// Faults of the store: so many in a million reads or commits.
    pub store_faults: [u32; 6],
    /// What people want at first, if that is not left to chance.
    pub plan: Option<Plan>,
    /// How long a push is on its way to production, if that is not left to chance.
    pub travel: Option<Duration>,
    /// After how long the store is away for everybody, and for how long, if that is not left to chance.
    pub away: Option<(Duration, Duration)>,
    /// Policy groups whose assets have edges, in a thousand.
    pub knit: u32,
    /// Seeds with edges of order across trees and policy groups, in a thousand.
    pub ordered: u32,
    /// People move pins that are the strategist's.
    pub meddling: bool,
    /// How often the last edit brings content that does not serve, in a thousand.
    pub stubborn: u32,
    /// The strategist's guard that is left out.
    #[cfg(feature = "planted-bugs")]
    pub planted_in_rollouts: Option<annealing_strategist::kernel::Bug>,
    /// What of every policy is not heeded.
    #[cfg(feature = "planted-bugs")]
    pub careless: Option<crate::policies::Careless>,
    /// What puts production right waits for edits of what comes before it.
    #[cfg(feature = "planted-bugs")]
    pub patient_order: bool,
    /// The kernel's guard that is left out.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<Bug>,
    /// Intent is put in force before validators have passed it.
    #[cfg(feature = "planted-bugs")]
    pub seal_early: bool,
    /// Seals are acknowledged before they are synced.
    #[cfg(feature = "planted-bugs")]
    pub ack_first: bool,
}

impl Scenario {
    /// What `seed` gets: an hour, of which the last part is without faults. One in ten is calm from the beginning.
    pub fn choose(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x7363_656e);
        let mut scenario = Self::stormy(&mut random);
        // A stream of its own: other seeds go as they would without.
        let mut stops = Random::new(seed ^ STOPS);
        let rate = [0, 0, 0, 60, 180][stops.below(5)];
        scenario.rates.set(Fault::Stop, rate);
        if random.per_mille(100) {
            scenario.busy(&[
                (Fault::EditBad, 300),
                (Fault::EditGroup, 100),
                (Fault::EditPolicy, 300),
                (Fault::SelectSlow, 500),
            ]);
        }
        scenario
    }

    fn stormy(random: &mut Random) -> Self {
        let store = |random: &mut Random, most: usize| match random.below(3) {
            0 => 0,
            _ => random.below(most) as u32,
        };
        let secs = Duration::from_secs;
        Self {
            rates: Rates::choose(random),
            enforcers: 1 + random.below(2),
            drift_period: secs(40 + random.below(40) as u64),
            edit_every: secs(2 + random.below(40) as u64),
            trouble_every: secs(5 + random.below(30) as u64),
            trouble: secs(2400),
            store_faults: [
                store(random, 20_000),
                store(random, 20_000),
                store(random, 300),
                store(random, 200_000),
                store(random, 500_000),
                store(random, 200_000),
            ],
            plan: None,
            travel: None,
            away: None,
            knit: 300,
            ordered: 400,
            meddling: false,
            stubborn: 200,
            #[cfg(feature = "planted-bugs")]
            planted_in_rollouts: None,
            #[cfg(feature = "planted-bugs")]
            careless: None,
            #[cfg(feature = "planted-bugs")]
            patient_order: false,
            #[cfg(feature = "planted-bugs")]
            planted: None,
            #[cfg(feature = "planted-bugs")]
            seal_early: false,
            #[cfg(feature = "planted-bugs")]
            ack_first: false,
        }
    }

    /// Edits follow each other, good ones and bad ones; besides that only `faults` happen.
    pub fn busy(&mut self, faults: &[(Fault, u32)]) {
        let edits = [(Fault::EditRevises, 800), (Fault::EditMends, 200)];
        self.rates = Rates::only(&[&edits, faults].concat());
        self.store_faults = [0; 6];
        self.enforcers = 1;
        self.edit_every = Duration::from_secs(20);
    }

    /// Whether nothing goes wrong but what people do, and want: then the judge excuses less.
    pub fn is_calm(&self) -> bool {
        let calm = |fault: &Fault| CALM.contains(fault) || self.rates.of(*fault) == 0;
        Fault::ALL.iter().all(calm) && self.store_faults == [0; 6] && self.away.is_none()
    }

    /// How long edits go on without faults.
    pub fn load(&self) -> Duration {
        self.drift_period * 6
    }

    /// How long production has to come to match intent.
    pub fn rest(&self) -> Duration {
        self.drift_period * 10
    }
}
