//! The judge: says when something happened that must never happen. It looks at production, at what was sealed and at
//! what people and checks said, never at the enforcer's own account.

mod cure;
mod ending;
mod excuse;
mod failed;
mod pins;
mod push;
mod rollout;
mod stop;
mod turn;
mod whole;
mod words;

use std::{collections::BTreeMap, time::Duration};

use prodspec_model::Digest;

use crate::{executor::Instant, production::Push, world::State};

pub use cure::Cures;
pub use excuse::EXCUSES;
pub use push::Call;
pub use rollout::{Eye, GroupEye};
pub use stop::Stops;
pub use words::Word;

/// Everything that the judge looks at.
pub const LOOKS: [&str; 36] = [
    "L1",
    "L2",
    "R6",
    "R8",
    "R9",
    "R12",
    "R13",
    "R22",
    "S1",
    "S2",
    "S3",
    "S4",
    "S5",
    "S7",
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
    "newer",
    "not reached",
    "once",
    "order",
    "room",
    "soon",
    "stopped",
    "wave",
    "whole",
    "where",
];

/// Something that must never happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant or rule.
    pub invariant: &'static str,
    /// What happened.
    pub what: String,
}

/// What a check said last about an asset to a process.
#[derive(Debug, Clone, Copy)]
pub struct Said {
    /// Yes. A check that was asked and has not answered says no.
    pub yes: bool,
    /// When.
    pub at: Instant,
    /// About which incarnation.
    pub incarnation: u32,
    /// About which change.
    pub change: Digest,
}

/// What is known of an asset's pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// It may be here or there.
    Moving,
    /// Acknowledged: at this incarnation.
    At(u32),
    /// Acknowledged: follows the newest.
    Latest,
}

/// People's moves of one pin.
#[derive(Debug, Default)]
struct Moves {
    begun: u64,
    /// The number of moves that have begun and not ended.
    open: u32,
}

/// What the judge remembers.
pub struct Judge {
    /// The first thing that must never happen.
    pub violation: Option<Violation>,
    /// What checks said, by process, check and asset.
    pub said: BTreeMap<(u32, usize, usize), Said>,
    /// The greatest token that production has heard of.
    pub token: u64,
    /// The newest incarnation that an owner has shown to know.
    pub known: BTreeMap<u64, u32>,
    /// The contents that consumers were shown, by incarnation and asset.
    pub shown: BTreeMap<(u32, usize), u64>,
    /// Pins that people moved.
    pub pins: BTreeMap<usize, Pinned>,
    /// Assets that a person said may be destroyed, with the change: how often that was said, and how many pushes began
    /// since.
    pub approved: BTreeMap<(usize, Digest), (u64, u64)>,
    /// Pushes that the store durably knows of, by asset: which change, as of which incarnation, by which owner.
    pub open: BTreeMap<usize, (Digest, u32, u64)>,
    /// Processes that are told to stop, and what they have under way.
    pub stops: Stops,
    /// How many pushes were begun, follow-ups not counted.
    pub begun: u64,
    /// How often each of these was looked at, to see that the judge is awake.
    pub looked: BTreeMap<&'static str, u64>,
    /// From when on every asset has to be looked at in time.
    pub punctual_from: Option<Instant>,
    /// The longest time between two looks at an asset, since then.
    pub longest: Duration,
    /// What was seen of each asset's rollouts.
    pub eyes: Vec<Eye>,
    /// What was seen of each policy group.
    pub groups: [GroupEye; 2],
    /// When the present commit was made, as far as known.
    pub made_at: Instant,
    /// Whose pins the present commit moves.
    moved: Vec<usize>,
    /// What people said to rollouts.
    pub words: Vec<Word>,
    /// When a wall clock jumped last: a bake that outlives it in another process is measured wrong.
    pub jumped: Option<Instant>,
    /// Since when production has heard of the newest owner.
    pub owned: Instant,
    /// When everything was put right.
    pub healed: Instant,
    /// What people changed by hand.
    pub cures: Cures,
    assets: usize,
    moves: BTreeMap<usize, Moves>,
}

impl Judge {
    /// A judge who has seen nothing yet.
    pub fn new(assets: usize) -> Self {
        Self {
            violation: None,
            said: BTreeMap::new(),
            token: 0,
            known: BTreeMap::new(),
            shown: BTreeMap::new(),
            pins: BTreeMap::new(),
            approved: BTreeMap::new(),
            open: BTreeMap::new(),
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

    /// A person begins to move a pin. Gives the number of this move, or none if another one has begun and not ended:
    /// of two moves at the same time neither is known to be the last.
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

    /// A move of a pin ended. Whether it is known to be the last one.
    pub fn moved_pin(&mut self, at: usize, number: Option<u64>) -> bool {
        let moves = self.moves.entry(at).or_default();
        moves.open -= 1;
        number == Some(moves.begun)
    }

    /// A person says that a change may destroy.
    pub fn approved(&mut self, at: usize, change: Digest) {
        let (said, _) = self.approved.entry((at, change)).or_default();
        *said += 1;
    }

    /// Whether what began at `since` may be measured by two clocks that differ.
    fn is_shaky(&self, since: Instant) -> bool {
        self.jumped
            .is_some_and(|jumped| since <= jumped.max(self.owned))
    }

    /// Whether it has looked at this.
    pub fn has_looked_at(&self, look: &str) -> bool {
        self.looked.contains_key(look)
    }

    fn look(&mut self, at: &'static str) {
        debug_assert!(LOOKS.contains(&at), "{at} is not counted");
        *self.looked.entry(at).or_default() += 1;
    }
}

impl State {
    /// S4: a change of `at` that took effect has not made anything worse than it was.
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
        self.production.effective += 1;
        self.judge.look("S4");
        for (provider, before) in providers.into_iter().zip(before) {
            let excess = self.production.excess(provider);
            if excess > before && !self.production.is_innocent(provider, started) {
                let users = self.production.users(provider);
                self.violated(
                    "S4",
                    format!(
                        "a push of asset/{at:02} took effect: (asset, use) {users:?} of asset/{provider:02} are {excess} more than it has"
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
                        "a push of asset/{at:02} took effect: {newer} run a version above that of asset/{schema:02}"
                    ),
                );
            }
        }
    }

    /// L2: an asset is looked at.
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
            self.violated("L2", format!("asset/{at:02} was not looked at for {gap:?}"));
        }
    }
}
