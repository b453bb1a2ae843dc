//! The faults and commands of a run: their names, their rates, and the points at which processes may die. Other modules
//! say what each does.

mod flows;
mod points;

pub use flows::{choose_rates, choose_storm};
pub use points::{Crash, Points};

use crate::random::Random;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident $rate:literal,)*) => {
        /// Something that goes wrong, an edit of intent, or a command of an operator.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            /// Every fault, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
            /// Usual rate of each fault, per thousand chances.
            const RATES: &[u32] = &[$($rate,)*];
        }
    };
}

faults! {
    /// The process dies before or after a write, a sync or an acknowledgement of the store.
    CrashAtPersist 1,
    /// The process dies during a call of the plugin.
    CrashAtCall 3,
    /// The process dies at any other point in time.
    Crash 60,
    /// The process pauses for three lease terms during a call of the store or the plugin.
    PauseAtPoint 1,
    /// The process pauses for three lease terms at any other point in time.
    Pause 60,
    /// All processes die at once, and the store loses the writes that were not synced.
    PowerCut 40,
    /// The wall clock of a process jumps by an hour.
    ClockHour 60,
    /// The wall clock of a process jumps by thirty days.
    ClockMonth 40,
    /// The wall clock of a process stands still for a while.
    ClockStops 60,
    /// No process can reach the store for a while.
    Unreachable 40,
    /// One of two processes cannot reach the store for a while.
    CutOff 60,
    /// A change hint of the store comes up to 20 s late.
    LateHint 200,
    /// A call of a plugin or a check takes much longer than usual.
    Slow 40,
    /// A diff call hangs until its deadline.
    HangDiff 8,
    /// A push call hangs until its deadline, and may have taken effect.
    HangPush 30,
    /// A plugin call fails with a transient error.
    Transient 30,
    /// A plugin call fails because the provider throttles calls.
    Throttled 15,
    /// A plugin call fails with a permanent error.
    Permanent 8,
    /// A push fails because the asset's own health check fails.
    Unhealthy 15,
    /// A push takes effect, and its answer is lost.
    LostAnswer 40,
    /// A push arrives at production long after it was sent.
    LateMessage 40,
    /// A plugin panics during a call.
    Panic 10,
    /// Diffs of an asset report a difference where there is none.
    LieDirty 400,
    /// Diffs of an asset report no difference where there is one.
    LieClean 300,
    /// The resource is marked as another system's for a while.
    Foreign 20,
    /// A check delays all assets of a scope for a while.
    CheckSaysNo 150,
    /// A check hangs until its deadline.
    CheckHangs 15,
    /// A check fails with an error.
    CheckFails 15,
    /// A resource's content is changed by hand.
    DriftContent 150,
    /// A resource's capacity is changed by hand.
    DriftCapacity 80,
    /// A resource is deleted by hand.
    DriftDeletion 40,
    /// An operator pauses or resumes pushes.
    PersonPauses 60,
    /// An operator moves a pin.
    PersonPins 120,
    /// An operator acknowledges an orphan.
    PersonAcknowledges 60,
    /// An edit halves or doubles a consumer and its provider together.
    EditResizes 300,
    /// An edit drops an edge and shrinks its provider at once, or adds the edge again.
    EditMovesEdge 200,
    /// An edit moves versions up or down.
    EditVersions 100,
    /// An edit changes content that no other asset depends on.
    EditRevises 300,
    /// An edit adds an asset that is not in intent.
    EditAdds 150,
    /// An edit removes an asset from intent.
    EditRemoves 100,
    /// An edit adds a turndown to an asset.
    EditTurnsDown 80,
    /// An edit renames an asset. The scenario sets the rate.
    EditRenames 0,
    /// Several edits follow each other without a wait.
    EditBurst 60,
    /// An edit makes an asset invalid, so that validators refuse the incarnation.
    EditInvalid 60,
    /// An edit changes a rollout policy.
    EditPolicy 60,
    /// An edit moves an asset into a policy group, out of it, or into another one.
    EditGroup 60,
    /// An edit gives an asset bad content, which does not serve correctly.
    EditBad 80,
    /// An edit repairs all bad content.
    EditMends 250,
    /// An operator gives a command to a rollout.
    PersonOnRollout 200,
    /// The rollout policies answer slowly, sometimes later than the deadline.
    SelectSlow 100,
    /// The rollout policies hang until the deadline of the selection.
    SelectHangs 20,
    /// The rollout policies fail with an error.
    SelectFails 30,
    /// A rollout policy panics during a selection.
    SelectPanics 20,
    /// A metric has no data at all.
    NoData 60,
    /// A metric has only samples that are not a number.
    NotANumber 60,
    /// The source of metrics fails with an error.
    MetricsFail 40,
    /// The source of metrics answers slowly.
    MetricsSlow 40,
    /// The health validator panics during a call.
    ValidatorPanics 20,
    /// A metric has old data only.
    MetricsStale 60,
    /// A process starts in observe-only mode.
    Observes 60,
    /// Every call to the provider fails for a while.
    Outage 60,
    /// The process is told to stop. The scenario sets the rate.
    Stop 0,
    /// A function of a workflow hangs until its deadline, and may have taken effect. The scenario sets the rate, as for all
    /// faults of workflows.
    FunctionHangs 0,
    /// A function fails with an error before it has an effect.
    FunctionFails 0,
    /// A function panics during a call.
    FunctionPanics 0,
    /// A function kills its process whenever it is called with one input.
    FunctionKillsProcess 0,
    /// A function takes effect, and its answer is lost.
    AnswerLost 0,
    /// A call arrives at the provider of a function long after it was sent.
    EffectLate 0,
    /// The start of an execution is asked for twice.
    CommandTwice 0,
    /// A person cancels an execution.
    PersonCancels 0,
    /// A person restarts a machine of an execution.
    PersonRestarts 0,
    /// A person pauses an execution.
    PersonSuspends 0,
    /// A person answers the question of an execution late.
    PersonAnswersLate 0,
    /// The start of an execution is asked for again long afterwards.
    CommandLate 0,
    /// A person edits a field that an execution may have set.
    PersonEditsField 0,
    /// A validator refuses an edit of an execution.
    SourceRefused 0,
    /// The rollout of an edit goes back.
    RolloutGoesBack 0,
    /// A schedule gets other slots.
    ScheduleEdited 0,
    /// A person moves an execution to the definition that the owner's program has.
    PersonRedefines 0,
}

impl Fault {
    /// Whether this is an edit that continues after the phase with faults.
    pub(crate) fn goes_on(self) -> bool {
        matches!(
            self,
            Self::EditResizes | Self::EditMovesEdge | Self::EditVersions | Self::EditRevises
        )
    }

    /// Name of the fault, as in counters.
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

/// The rate of each fault on one seed.
#[derive(Debug, Clone)]
pub struct Rates(Vec<u32>);

impl Rates {
    /// Chooses a rate for each fault: zero, the usual one, or three times as much.
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

    /// Rates of zero for all faults.
    pub fn none() -> Self {
        Self(vec![0; Fault::ALL.len()])
    }

    /// Only these faults, each with its rate per thousand chances.
    pub fn only(faults: &[(Fault, u32)]) -> Self {
        let mut rates = Self::none();
        for (fault, rate) in faults {
            rates.set(*fault, *rate);
        }
        rates
    }

    /// Sets the rate of one fault, per thousand chances.
    pub fn set(&mut self, fault: Fault, rate: u32) {
        self.0[fault as usize] = rate;
    }

    /// Rate of a fault, per thousand chances.
    pub fn of(&self, fault: Fault) -> u32 {
        self.0[fault as usize]
    }
}
