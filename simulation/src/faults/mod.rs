//! Everything that can go wrong, how often it does on this seed, and how often it did.

pub mod clock;
mod driver;
mod people;
mod points;
mod store;
pub mod words;

pub use driver::drive;
pub use people::care;
pub use points::{Crash, Points, dies_here};
pub use store::go_away;

use crate::random::Random;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident $rate:literal,)*) => {
        /// Something that goes wrong, or that somebody does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
            /// Times in a thousand chances, on a seed of middling trouble.
            const RATES: &[u32] = &[$($rate,)*];
        }
    };
}

faults! {
    /// The process dies before or after a write, a sync or an acknowledgement.
    CrashAtPersist 1,
    /// The process dies at a plugin call.
    CrashAtCall 3,
    /// The process dies at any other time.
    Crash 60,
    /// The process stands still for three lease terms, at a store's point or a plugin's.
    PauseAtPoint 1,
    /// The process stands still at any other time.
    Pause 60,
    /// All processes die at once, and the store loses what was not synced.
    PowerCut 40,
    /// The wall clock jumps by an hour.
    ClockHour 60,
    /// The wall clock jumps by thirty days.
    ClockMonth 40,
    /// The wall clock stands still for a while.
    ClockStops 60,
    /// The store cannot be reached for a while.
    Unreachable 40,
    /// The store cannot be reached by one of two processes for a while.
    CutOff 60,
    /// A hint comes late.
    LateHint 200,
    /// A call takes a hundred times as long.
    Slow 40,
    /// A diff never answers.
    HangDiff 8,
    /// A push never answers, and may have taken effect.
    HangPush 30,
    /// A call fails, and may work the next time.
    Transient 30,
    /// The provider wants to be left alone for a while.
    Throttled 15,
    /// A call fails for good.
    Permanent 8,
    /// The asset's own health check says no.
    Unhealthy 15,
    /// A push takes effect, and the answer is lost.
    LostAnswer 40,
    /// A push reaches production long after it was sent.
    LateMessage 40,
    /// A plugin panics.
    Panic 10,
    /// A diff finds a difference where there is none.
    LieDirty 400,
    /// A diff finds none where there is one.
    LieClean 300,
    /// The resource is marked as another system's for a while.
    Foreign 20,
    /// A check says no for a while.
    CheckSaysNo 150,
    /// A check never answers.
    CheckHangs 15,
    /// A check fails.
    CheckFails 15,
    /// A resource's content is changed by hand.
    DriftContent 150,
    /// A resource's capacity is changed by hand.
    DriftCapacity 80,
    /// A resource is deleted by hand.
    DriftDeletion 40,
    /// A person pauses pushes.
    PersonPauses 60,
    /// A person moves a pin.
    PersonPins 120,
    /// A person acknowledges an orphan.
    PersonAcknowledges 60,
    /// An edit halves or doubles a consumer and its provider together.
    EditResizes 300,
    /// An edit drops an edge and shrinks its provider at once, or adds one.
    EditMovesEdge 200,
    /// An edit moves versions up or down.
    EditVersions 100,
    /// An edit changes contents that nobody depends on.
    EditRevises 300,
    /// An edit adds an asset, or brings one back.
    EditAdds 150,
    /// An edit removes an asset.
    EditRemoves 100,
    /// An edit turns an asset down.
    EditTurnsDown 80,
    /// Several edits follow each other at once.
    EditBurst 60,
    /// An edit that validators refuse.
    EditInvalid 60,
    /// A rollout policy is edited.
    EditPolicy 60,
    /// An asset joins a policy group, leaves it, or goes over to another.
    EditGroup 60,
    /// An edit brings content that does not serve.
    EditBad 80,
    /// An edit mends all content that does not serve.
    EditMends 250,
    /// A person says something to a rollout.
    PersonOnRollout 200,
    /// The rollout policies take their time, longer than anybody waits now and then.
    SelectSlow 100,
    /// The rollout policies never answer.
    SelectHangs 20,
    /// The rollout policies fail.
    SelectFails 30,
    /// A rollout policy panics.
    SelectPanics 20,
    /// A metric has no data.
    NoData 60,
    /// A metric is not a number.
    NotANumber 60,
    /// The source of metrics fails.
    MetricsFail 40,
    /// The source of metrics takes its time.
    MetricsSlow 40,
    /// The validator panics.
    ValidatorPanics 20,
    /// A metric has old data only.
    MetricsStale 60,
    /// A process is started that only observes.
    Observes 60,
    /// The provider answers nothing but errors for a while.
    Outage 60,
    /// The process is told to stop. How often is left to the scenario.
    Stop 0,
}

impl Fault {
    /// Whether it is an edit of intent that people go on with when nothing goes wrong any more.
    pub(crate) fn goes_on(self) -> bool {
        matches!(
            self,
            Self::EditResizes | Self::EditMovesEdge | Self::EditVersions | Self::EditRevises
        )
    }

    /// Its name.
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

/// How often each fault strikes on one seed.
#[derive(Debug, Clone)]
pub struct Rates(Vec<u32>);

impl Rates {
    /// Chooses, fault by fault: not at all, as usual, or often.
    pub fn choose(random: &mut Random) -> Self {
        let mut of = |rate: &u32| match rate {
            0 => 0,
            rate => match random.below(10) {
                0..=3 => 0,
                4..=7 => *rate,
                _ => (*rate * 3).min(700),
            },
        };
        Self(Fault::RATES.iter().map(&mut of).collect())
    }

    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self(vec![0; Fault::ALL.len()])
    }

    /// Nothing but these, in a thousand.
    pub fn only(faults: &[(Fault, u32)]) -> Self {
        let mut rates = Self::none();
        for (fault, rate) in faults {
            rates.set(*fault, *rate);
        }
        rates
    }

    /// This one so often in a thousand chances, the others as they are.
    pub fn set(&mut self, fault: Fault, rate: u32) {
        self.0[fault as usize] = rate;
    }

    /// Times in a thousand chances.
    pub fn of(&self, fault: Fault) -> u32 {
        self.0[fault as usize]
    }
}
