//! The scenario of a seed: rates of faults, durations, and the guards that tests remove.

use std::time::Duration;

#[cfg(feature = "planted-bugs")]
use annealing_enforcer::kernel::Bug;

use crate::{
    faults::{Fault, Rates, choose_rates},
    intent::Plan,
    random::Random,
};

/// Faults of a calm scenario: edits of intent, and slow policies, which delay rollouts only a little.
const CALM: [Fault; 6] = [
    Fault::EditBad,
    Fault::EditGroup,
    Fault::EditMends,
    Fault::EditPolicy,
    Fault::EditRevises,
    Fault::SelectSlow,
];

/// Separates the random stream that chooses how often reads are left behind.
const BEHIND: u64 = 0x6265_686e;

/// Separates the random stream that chooses the rate of orderly stops.
const STOPS: u64 = 0x7374_6f70;

/// Separates the random stream that chooses the rate of renames.
const RENAMES: u64 = 0x7265_6e61;

/// Separates the random stream that chooses whether there are schedules.
const SCHEDULES: u64 = 0x736c_6f74;

/// Separates the random stream that chooses whether there are watches.
const WATCHES: u64 = 0x7761_7463;

/// Part of a policy that the stack ignores, in tests of the judge.
#[cfg(feature = "planted-bugs")]
#[derive(Debug, Clone, Copy)]
pub enum Careless {
    /// R18: the policy's hold is ignored.
    Hold,
    /// R18: the policy's waves are ignored.
    Waves,
    /// R18: a first turnup selects all targets at once, even if the policy asks for a gradual one.
    FirstTurnup,
    /// R18: the policy's canary is ignored.
    Canary,
    /// R18: the policy's order of domains is ignored.
    Domains,
    /// R18: the maximum number of targets in flight is ignored.
    InFlight,
    /// R18: the maximum of unavailable targets per domain is ignored.
    Unavailable,
    /// R21: all bake times are ignored.
    Bakes,
}

/// Parameters of the run of one seed.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Rates of the faults, per thousand chances.
    pub rates: Rates,
    /// Number of enforcer processes: 1 or 2.
    pub enforcers: usize,
    /// Drift period of the enforcers: each asset is diffed once in this time.
    pub drift_period: Duration,
    /// Average time between two edits.
    pub edit_every: Duration,
    /// Average time between two chances for faults that strike by the clock.
    pub trouble_every: Duration,
    /// Duration of the phase with faults.
    pub trouble: Duration,
    /// Rates of the store's faults, per million reads or commits.
    pub store_faults: [u32; 7],
    /// The first intent; `None` chooses it by the seed.
    pub plan: Option<Plan>,
    /// Time of a push from the plugin to production; `None` chooses it by the seed.
    pub travel: Option<Duration>,
    /// Start and duration of an outage of the store for all processes; `None` leaves outages to the rates.
    pub away: Option<(Duration, Duration)>,
    /// Policy groups whose assets have edges, per thousand groups.
    pub knit: u32,
    /// Seeds with edges of order across trees and policy groups, per thousand seeds.
    pub ordered: u32,
    /// Whether policy groups may wait for each other. Then rollouts may have no way forward, so L1 is not judged, and
    /// operators roll back what is stuck. Repairs and rollbacks have to end all the same.
    pub mutual: bool,
    /// Whether operators also move pins that belong to the strategist.
    pub meddling: bool,
    /// How often the last edit brings bad content, per thousand seeds.
    pub stubborn: u32,
    /// Number of executions of workflows that begin in the phase with faults; none: no process has workflows.
    pub executions: usize,
    /// Whether intent has schedules.
    pub schedules: bool,
    /// Whether intent has watches.
    pub watches: bool,
    /// Guard of the workflows' kernel that is removed; `None` removes no guard.
    #[cfg(feature = "planted-bugs")]
    pub planted_in_workflows: Option<annealing_workflow::kernel::Bug>,
    /// Guard of the strategist that is removed; `None` removes no guard.
    #[cfg(feature = "planted-bugs")]
    pub planted_in_rollouts: Option<annealing_strategist::kernel::Bug>,
    /// Part of every rollout policy that is ignored; `None` ignores no part.
    #[cfg(feature = "planted-bugs")]
    pub careless: Option<Careless>,
    /// Whether drift repair waits for pending edits of the assets that come first in the order.
    #[cfg(feature = "planted-bugs")]
    pub patient_order: bool,
    /// Guard of the enforcer's kernel that is removed; `None` removes no guard.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<Bug>,
    /// Whether the sealer seals an incarnation before the validators have accepted it.
    #[cfg(feature = "planted-bugs")]
    pub seal_early: bool,
    /// Whether the store acknowledges seals before they are synced.
    #[cfg(feature = "planted-bugs")]
    pub ack_first: bool,
}

impl Scenario {
    /// Chooses the scenario of `seed`: forty minutes with faults, then phases without. One seed in ten has only edits,
    /// bad content and slow policies from the beginning.
    pub fn choose(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x7363_656e);
        let mut scenario = Self::stormy(&mut random);
        // A separate stream, so that other seeds do not change.
        let mut stops = Random::new(seed ^ STOPS);
        let rate = [0, 0, 0, 60, 180][stops.below(5)];
        scenario.rates.set(Fault::Stop, rate);
        let mut renames = Random::new(seed ^ RENAMES);
        let rate = [0, 0, 0, 150, 400][renames.below(5)];
        scenario.rates.set(Fault::EditRenames, rate);
        let mut behind = Random::new(seed ^ BEHIND);
        scenario.store_faults[6] = [0, 0, 2_000, 20_000][behind.below(4)];
        choose_rates(seed, &mut scenario.rates);
        scenario.schedules = Random::new(seed ^ SCHEDULES).per_mille(400);
        scenario.watches = Random::new(seed ^ WATCHES).per_mille(400);
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
                0,
            ],
            plan: None,
            travel: None,
            away: None,
            knit: 300,
            ordered: 400,
            mutual: false,
            meddling: false,
            stubborn: 200,
            executions: 4,
            schedules: true,
            watches: true,
            #[cfg(feature = "planted-bugs")]
            planted_in_workflows: None,
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

    /// Replaces all faults by frequent edits that change or repair content, and by `faults`. One enforcer, no store
    /// faults.
    pub fn busy(&mut self, faults: &[(Fault, u32)]) {
        let edits = [(Fault::EditRevises, 800), (Fault::EditMends, 200)];
        self.rates = Rates::only(&[&edits, faults].concat());
        self.store_faults = [0; 7];
        self.enforcers = 1;
        self.edit_every = Duration::from_secs(20);
    }

    /// Whether only edits and slow policies can disturb the run. Then the judge accepts fewer excuses.
    pub fn is_calm(&self) -> bool {
        let calm = |fault: &Fault| CALM.contains(fault) || self.rates.of(*fault) == 0;
        Fault::ALL.iter().all(calm) && self.store_faults == [0; 7] && self.away.is_none()
    }

    /// Duration of the phase with edits and without faults.
    pub fn load(&self) -> Duration {
        self.drift_period * 6
    }

    /// Duration of the phase without edits, in which production has to reach its intent.
    pub fn rest(&self) -> Duration {
        self.drift_period * 10
    }
}
