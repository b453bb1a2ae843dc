//! The judge: checks the invariants. It observes production, sealed incarnations, commands, answers of checks and
//! acknowledged commits, but never the enforcer's own state.

mod approvals;
mod cure;
mod ending;
mod excuse;
mod failed;
mod pins;
mod push;
mod rollout;
mod stop;
#[cfg(test)]
mod tests;
mod turn;
mod waited;
mod whole;
mod words;

use std::{collections::BTreeMap, time::Duration};

use control_plane_store::records::OpenPush;
use prodspec_model::{AssetId, Digest};

use crate::{executor::Instant, production::Push, world::State};

pub use approvals::Approvals;
pub use cure::Cures;
pub use excuse::EXCUSES;
pub use push::Call;
pub use rollout::{Eye, GroupEye};
pub use stop::Stops;
pub use words::Word;

/// Names of all the conditions that the judge checks.
pub const LOOKS: [&str; 54] = [
    "L1",
    "L2",
    "R6",
    "R8",
    "R9",
    "R12",
    "R13",
    "R22",
    "R23",
    "R24",
    "R25",
    "R26",
    "R28",
    "R29",
    "R30",
    "R31",
    "R32",
    "R34",
    "R36",
    "R37",
    "R38",
    "R39",
    "S1",
    "S2",
    "S3",
    "S4",
    "S5",
    "S7",
    "S8",
    "back",
    "canary",
    "cured",
    "cured under an edit",
    "domain",
    "drain",
    "emergency",
    "gradual",
    "gone",
    "halts",
    "hold",
    "in turn",
    "late",
    "newer",
    "not reached",
    "once",
    "order",
    "released",
    "room",
    "slots",
    "soon",
    "stopped",
    "wave",
    "whole",
    "where",
];

/// A broken invariant or rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Number of the invariant or rule, or name of the condition.
    pub invariant: &'static str,
    /// Description with the time, for people.
    pub what: String,
}

/// The last answer of a check to a process about an asset.
#[derive(Debug, Clone, Copy)]
pub struct Said {
    /// Whether the check let the change proceed. A check that was called and has not answered counts as a delay.
    pub yes: bool,
    /// Time of the call or the answer.
    pub at: Instant,
    /// Number of the incarnation of the request.
    pub incarnation: u32,
    /// Digest of the change of the request.
    pub change: Digest,
}

/// The judge's knowledge of a pin that operators moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// A move has begun and was not acknowledged: the pin may or may not have moved.
    Moving,
    /// The pin is at this incarnation, as acknowledged.
    At(u32),
    /// The pin follows the newest incarnation, as acknowledged.
    Latest,
}

/// Moves of one pin by operators.
#[derive(Debug, Default)]
struct Moves {
    /// Number of moves that have begun.
    begun: u64,
    /// Number of moves that have begun and not ended.
    open: u32,
}

/// State of the judge during a run.
pub struct Judge {
    /// The first violation, if there was any.
    pub violation: Option<Violation>,
    /// Last answers of checks, by process, check and asset.
    pub said: BTreeMap<(u32, usize, AssetId), Said>,
    /// Greatest token of all calls to production.
    pub token: u64,
    /// Newest incarnation of each owner's pushes, by token.
    pub known: BTreeMap<u64, u32>,
    /// Content marks that plugin calls have carried, by incarnation and asset.
    pub shown: BTreeMap<(u32, usize), u64>,
    /// Pins that operators moved, by asset number.
    pub pins: BTreeMap<usize, Pinned>,
    /// Approvals of destructive changes.
    pub approvals: Approvals,
    /// Durable records of open pushes, by asset.
    pub open: BTreeMap<usize, OpenPush>,
    /// Start of the commit that opened the last push of each asset. The push was decided before.
    pub opened: BTreeMap<usize, Instant>,
    /// Processes that were told to stop, and their pushes.
    pub stops: Stops,
    /// Number of pushes that began, without follow-ups.
    pub begun: u64,
    /// Number of times that each condition was checked, to prove that the judge works.
    pub looked: BTreeMap<&'static str, u64>,
    /// Time from which on every asset has to be diffed in time (L2); `None` before.
    pub punctual_from: Option<Instant>,
    /// Longest time between two diffs of an asset since then.
    pub longest: Duration,
    /// Observations of each asset's rollouts, by asset number.
    pub eyes: Vec<Eye>,
    /// Observations of each policy group, by group number.
    pub groups: [GroupEye; 2],
    /// Time at which the current commit was made, as far as known.
    pub made_at: Instant,
    /// Assets whose pins the current commit moves.
    moved: Vec<usize>,
    /// Commands of operators to rollouts.
    pub words: Vec<Word>,
    /// Time of the last jump of a wall clock: samples read after it may be taken for older or newer than they are.
    pub jumped: Option<Instant>,
    /// Time of the newest owner's first call.
    pub owned: Instant,
    /// End of the phase with faults.
    pub healed: Instant,
    /// Manual changes of production and their repair.
    pub cures: Cures,
    assets: usize,
    moves: BTreeMap<usize, Moves>,
}

impl Judge {
    /// Makes a judge for a number of assets, without any observation.
    pub fn new(assets: usize) -> Self {
        Self {
            violation: None,
            said: BTreeMap::new(),
            token: 0,
            known: BTreeMap::new(),
            shown: BTreeMap::new(),
            pins: BTreeMap::new(),
            approvals: Approvals::default(),
            open: BTreeMap::new(),
            opened: BTreeMap::new(),
            stops: Stops::default(),
            begun: 0,
            looked: BTreeMap::new(),
            punctual_from: None,
            longest: Duration::ZERO,
            eyes: vec![Eye::default(); assets],
            groups: Default::default(),
            made_at: Instant::default(),
            moved: Vec::new(),
            words: Vec::new(),
            jumped: None,
            owned: Instant::default(),
            healed: Instant::default(),
            cures: Cures::new(assets),
            assets,
            moves: BTreeMap::new(),
        }
    }

    /// Records that an operator begins to move a pin. Returns the number of the move, counted per asset; `None` if
    /// another move of the pin has not ended, because the order of concurrent moves is unknown.
    pub fn move_pin(&mut self, at: usize) -> Option<u64> {
        let moves = self.moves.entry(at).or_default();
        moves.begun += 1;
        moves.open += 1;
        (moves.open == 1).then_some(moves.begun)
    }

    /// Whether a move of a pin has begun and not ended.
    pub fn is_moving(&self, at: usize) -> bool {
        self.moves.get(&at).is_some_and(|moves| moves.open > 0)
    }

    /// Records the end of a move of a pin. Returns whether it is known to be the last move that began.
    pub fn moved_pin(&mut self, at: usize, number: Option<u64>) -> bool {
        let moves = self.moves.entry(at).or_default();
        moves.open -= 1;
        number == Some(moves.begun)
    }

    /// Whether samples since `since` may be read with a wrong time: a wall clock has jumped, and the jump or the change of
    /// the owner came after `since`.
    fn is_shaky(&self, since: Instant) -> bool {
        self.jumped
            .is_some_and(|jumped| since <= jumped.max(self.owned))
    }

    /// Whether the judge has checked this condition at least once.
    pub fn has_looked_at(&self, look: &str) -> bool {
        self.looked.contains_key(look)
    }

    pub(crate) fn look(&mut self, at: &'static str) {
        debug_assert!(LOOKS.contains(&at), "{at} is not counted");
        *self.looked.entry(at).or_default() += 1;
    }
}

impl State {
    /// S4: a push of `at` takes effect. It must not increase the excess demand on a provider, nor the number of
    /// versions above a schema.
    pub fn flip(&mut self, at: usize, push: Push) {
        let Push { to, started, .. } = push;
        let (providers, schemas) = self.production.touched(at, to);
        let before: Vec<u64> = providers
            .iter()
            .map(|p| self.production.excess(*p))
            .collect();
        let newer: Vec<usize> = schemas
            .iter()
            .map(|s| self.production.too_new(*s))
            .collect();
        let now = self.now;
        self.judge_once(at, push);
        let resource = &mut self.production.resources[at];
        (resource.before_hand, resource.changed_by_hand) = (None, None);
        resource.put(now, to);
        self.arrived(at);
        self.stirs(at);
        self.flows.watched.pushed.insert(at, now);
        self.production.effective += 1;
        self.judge.look("S4");
        for (provider, before) in providers.into_iter().zip(before) {
            let excess = self.production.excess(provider);
            if excess > before && !self.production.is_innocent(provider, started) {
                let users = self.production.users(provider);
                self.violated(
                    "S4",
                    format!(
                        "a push of asset/{at:02} took effect: the demand on asset/{provider:02} exceeds its \
                         capacity by {excess}; (consumer, demand): {users:?}"
                    ),
                );
            }
        }
        for (schema, before) in schemas.into_iter().zip(newer) {
            let newer = self.production.too_new(schema);
            if newer > before && !self.production.is_innocent(schema, started) {
                self.violated(
                    "S4",
                    format!(
                        "a push of asset/{at:02} took effect: {newer} assets run a version above \
                         that of asset/{schema:02}"
                    ),
                );
            }
        }
    }

    /// L2: an asset is diffed. The time since its last diff must not exceed two drift periods.
    pub fn looked_at(&mut self, at: usize) {
        let now = self.now;
        self.judge_soon(at);
        let before = self.unseen_since(at);
        self.production.resources[at].looked_at = Some(now);
        let Some(from) = self.judge.punctual_from else {
            return;
        };
        if !self.is_due(at) {
            return;
        }
        let gap = now.since(before.max(from));
        self.judge.longest = self.judge.longest.max(gap);
        self.judge.look("L2");
        if gap > self.scenario.drift_period * 2 {
            self.violated("L2", format!("asset/{at:02} was not diffed for {gap:?}"));
        }
    }
}
