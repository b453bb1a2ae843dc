//! Random histories: answers, losses, crashes, words and time in any order. A provider counts effects by key.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{
    Dispatch, DispatchRequest,
    operation::{EffectKey, ExecutionId, Fence, Probed, StartCause},
};
use proptest::{
    arbitrary, collection, prop_oneof, proptest,
    strategy::{Just, Strategy},
    test_runner::Config as ProptestConfig,
};

use super::*;

/// A step of a history. Numbers choose among what is there.
#[derive(Debug, Clone)]
enum Act {
    Start(u8),
    Answer(u8, Kind),
    Sync,
    Crash,
    Pass(u32),
    Cancel(u8),
    Pause(u8),
    Resume(u8),
    Restart(u8, u8),
    Say(u8),
    Settle(u8, bool),
    Skip(u8, u8),
    /// The next owner has the other definition of the season.
    Deploy(bool),
    Redefine(u8),
    /// Seasons are drained, or begin again.
    Drain(bool),
    /// The dispatch stack answers all questions, or delays all.
    Dispatch(bool),
    Probe(u8),
    /// The ownership is fresh from now on, or not any more.
    Lease(bool),
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Done,
    Fails,
    Permanent,
    UnderWay,
    /// The effect happens, but the caller does not learn of it.
    Lost,
}

fn act() -> impl Strategy<Value = Act> {
    let kind = prop_oneof![
        6 => Just(Kind::Done),
        2 => Just(Kind::Fails),
        1 => Just(Kind::Permanent),
        2 => Just(Kind::UnderWay),
        2 => Just(Kind::Lost),
    ];
    prop_oneof![
        2 => (0..3_u8).prop_map(Act::Start),
        8 => (arbitrary::any::<u8>(), kind).prop_map(|(which, kind)| Act::Answer(which, kind)),
        6 => Just(Act::Sync),
        2 => Just(Act::Crash),
        4 => (1..100_u32).prop_map(Act::Pass),
        1 => arbitrary::any::<u8>().prop_map(Act::Cancel),
        1 => arbitrary::any::<u8>().prop_map(Act::Pause),
        1 => arbitrary::any::<u8>().prop_map(Act::Resume),
        1 => (arbitrary::any::<u8>(), arbitrary::any::<u8>()).prop_map(|(which, machine)| Act::Restart(which, machine)),
        2 => arbitrary::any::<u8>().prop_map(Act::Say),
        1 => (arbitrary::any::<u8>(), arbitrary::any::<bool>()).prop_map(|(which, again)| Act::Settle(which, again)),
        1 => (arbitrary::any::<u8>(), arbitrary::any::<u8>()).prop_map(|(which, machine)| Act::Skip(which, machine)),
        1 => arbitrary::any::<bool>().prop_map(Act::Deploy),
        2 => arbitrary::any::<u8>().prop_map(Act::Redefine),
        1 => arbitrary::any::<bool>().prop_map(Act::Drain),
        6 => (0..5_u8).prop_map(|delays| Act::Dispatch(delays > 0)),
        2 => arbitrary::any::<u8>().prop_map(Act::Probe),
        2 => (0..3_u8).prop_map(|ends| Act::Lease(ends > 0)),
    ]
}

/// The machines that words are about.
const MACHINES: [&str; 12] = [
    "load", "verify", "posters", "go", "publish", "undo", "seasons", "plan", "print", "more",
    "last", "warm",
];

/// The answer of a function whose work is done. A plan adds two machines.
fn answer_of(function: &str) -> Result<Ran, plugin::Error> {
    match function {
        "plan" => {
            let more = Machine::calls("more", "keyed").when(is("plan", "done"));
            let last = Machine::calls("last", "safe").when(is("more", "done"));
            Ok(Answer::new().track(more).track(last).done())
        }
        _ => done(),
    }
}

/// The world with its provider.
struct Judged {
    world: World,
    /// Effects that were made, by key, and the greatest fence that was seen.
    effects: BTreeMap<EffectKey, (u32, Fence)>,
    /// Keys of calls that must not be repeated and whose outcome is not known.
    uncertain: BTreeSet<EffectKey>,
    /// Calls that must not be repeated, in flight.
    never: BTreeMap<CallNo, EffectKey>,
}

fn workflow() -> Workflow {
    Workflow::new("season")
        .machine(Machine::calls("load", "keyed"))
        .machine(Machine::calls("verify", "safe").when(is("load", "done")))
        .machine(Machine::calls("posters", "keyed").retry_limit(3))
        .machine(
            Machine::asks("go", "Open?", ["yes", "no"])
                .when(all([is("verify", "done"), is("posters", "done")])),
        )
        .machine(Machine::waits("rest", Duration::from_secs(30)).when(is("go", "yes")))
        .machine(Machine::calls("publish", "never").when(is("rest", "done")))
        .machine(Machine::calls("undo", "keyed").cleans_up().when(all([
            is("load", "done"),
            any([
                is("verify", "failed"),
                is("posters", "failed"),
                is("publish", "failed"),
                is("go", "no"),
                cancelled(),
            ]),
        ])))
        .ends_well(is("publish", "done"))
        .ends_badly(any([is("go", "no"), is("undo", "done")]))
        .build()
        .unwrap()
}

/// The season in another order, with a machine more and other actions.
fn other_season() -> Workflow {
    let mut other = workflow().definition().clone();
    other.machines.reverse();
    for machine in &mut other.machines {
        match machine.name.as_str() {
            "posters" => *machine = Machine::calls("posters", "keyed").retry_limit(4),
            "rest" => {
                *machine = Machine::waits("rest", Duration::from_secs(9)).when(is("go", "yes"));
            }
            _ => {}
        }
    }
    let warm = Machine::calls("warm", "keyed").when(is("load", "done"));
    other.machine(warm).build().unwrap()
}

/// Two seasons, one after the other, and a plan that adds machines; what is printed can be looked for.
fn troupe() -> Workflow {
    use plugin_sdk::workflow::Action;

    Workflow::new("troupe")
        .machine(
            Machine::new("seasons", "first")
                .on("first", Action::starts("season").leads("done", "second"))
                .on("second", Action::starts("season").leads("done", "over")),
        )
        .machine(Machine::calls("plan", "plan"))
        .machine(Machine::calls("print", "probed").when(is("plan", "done")))
        .ends_well(all([is("seasons", "over"), is("print", "done")]))
        .build()
        .unwrap()
}

/// At most two steps call `keyed` at a time, and two executions that people start are live.
fn dispatch(request: &DispatchRequest) -> Dispatch {
    let claim = |key: &str| request.go().claim(Claim::AtMost(key.into(), 2));
    match request.function.as_deref() {
        Some("keyed") => claim("app"),
        None if request.is_start() && request.cause == StartCause::Command => claim("stage"),
        _ => request.go(),
    }
}

impl Judged {
    fn new() -> Self {
        let functions = [
            keyed("keyed"),
            function("safe", Repeat::Safe, Guard::Advisory),
            function("never", Repeat::Never, Guard::Advisory),
            function("plan", Repeat::Keyed, Guard::Advisory),
            Function {
                has_probe: true,
                ..function("probed", Repeat::Never, Guard::Guarded)
            },
        ];
        let workflows = [workflow(), troupe()].map(|it| (it.name().clone(), it));
        let settings = Settings {
            workflows: workflows.into(),
            functions: functions.map(|it| (it.info.name.clone(), it)).into(),
            dispatches: true,
            ..Settings::default()
        };
        Self {
            world: World::with_settings(settings),
            effects: BTreeMap::new(),
            uncertain: BTreeSet::new(),
            never: BTreeMap::new(),
        }
    }

    /// What must not be repeated is not called again while it is not known what the last call has done.
    fn look(&mut self) {
        let calls = &self.world.calls;
        let claimed = calls.values().filter(|call| &*call.function == "keyed");
        assert!(claimed.count() <= 2, "the claim is for two");
        let gone = self.never.extract_if(.., |no, _| !calls.contains_key(no));
        self.uncertain.extend(gone.map(|(_, key)| key));
        for (no, call) in calls.iter().filter(|(_, call)| &*call.function == "never") {
            assert!(
                !self.uncertain.contains(&call.key),
                "{} is called again",
                call.key
            );
            self.never.insert(*no, call.key.clone());
        }
    }

    fn pick(&self, which: u8) -> Option<ExecutionId> {
        let live = &self.world.kernel.live;
        let at = usize::from(which).checked_rem(live.len())?;
        live.values().nth(at).map(|it| it.id.clone())
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Start(key) => {
                let workflow = ["season", "troupe"][usize::from(key % 2)];
                self.world.start(workflow, &key.to_string());
            }
            Act::Answer(which, kind) => self.answer(*which, *kind),
            Act::Sync => self.world.sync(),
            Act::Crash => self.world.crash(),
            Act::Deploy(other) => self.deploy(*other),
            Act::Redefine(which) => self.say(*which, Say::Redefine),
            Act::Drain(drains) => self.season(*drains),
            Act::Dispatch(true) => self.world.dispatched(dispatch),
            Act::Dispatch(false) => self.world.dispatched_once(|request| {
                request
                    .delay("not now")
                    .recheck_after(Duration::from_secs(20))
            }),
            Act::Probe(_) if self.world.probes.is_empty() => {}
            Act::Probe(which) => self.world.probed(match which % 3 {
                0 => Probed::NotHappened,
                1 => Probed::InProgress,
                _ => Probed::Happened(Answer::new()),
            }),
            Act::Lease(fresh) => {
                let time = if *fresh { 1 << 30 } else { 0 };
                self.world.lease(Duration::from_secs(time));
            }
            Act::Skip(which, machine) => {
                let machine = MACHINES[usize::from(*machine) % MACHINES.len()];
                self.say(*which, Say::skip(machine, "done"));
            }
            Act::Pass(seconds) => self.world.pass(Duration::from_secs((*seconds).into())),
            Act::Cancel(which) => self.say(*which, Say::Cancel),
            Act::Pause(which) => self.say(*which, Say::Pause),
            Act::Resume(which) => self.say(*which, Say::Resume),
            Act::Restart(which, machine) => {
                let name = MACHINES[usize::from(*machine) % MACHINES.len()];
                self.say(*which, Say::Restart(vec![name.into()]));
            }
            Act::Say(which) => {
                let option = if which % 4 == 0 { "no" } else { "yes" };
                self.say(*which, Say::answer("go", option));
            }
            Act::Settle(which, again) => {
                let word = match again {
                    true => Say::again("publish"),
                    false => Say::settle("publish", "done"),
                };
                if let Some(id) = self.pick(*which)
                    && self.world.say(&id, word) == Reply::Taken
                {
                    self.uncertain.retain(|key| key.execution != id);
                }
            }
        }
    }

    fn deploy(&mut self, other: bool) {
        let next = if other { other_season() } else { workflow() };
        self.world.with_workflow(next);
        self.world.crash();
    }

    fn season(&mut self, drains: bool) {
        let word = match drains {
            true => WorkflowWord::Drain,
            false => WorkflowWord::Resume,
        };
        self.world.hear(Command::Workflow("season".into(), word));
    }

    fn say(&mut self, which: u8, word: Say) {
        if let Some(id) = self.pick(which) {
            self.world.say(&id, word);
        }
    }

    /// The provider makes the effect of a key once, and refuses fences below the greatest that it has seen.
    fn answer(&mut self, which: u8, kind: Kind) {
        let calls: Vec<CallNo> = self.world.calls.keys().copied().collect();
        let Some(at) = usize::from(which).checked_rem(calls.len()) else {
            return;
        };
        let call = self.world.calls.remove(&calls[at]).unwrap();
        let seen = self
            .effects
            .entry(call.key.clone())
            .or_insert((0, call.fence));
        assert!(
            call.fence >= seen.1,
            "{} was called with an older fence",
            call.key
        );
        seen.1 = call.fence;
        if matches!(kind, Kind::Done | Kind::Lost) && seen.0 == 0 {
            seen.0 = 1;
        }
        if !matches!(kind, Kind::Lost) {
            self.never.remove(&calls[at]);
        }
        let answer = match kind {
            Kind::Done => answer_of(&call.function),
            Kind::Fails => transient(),
            Kind::Permanent => Err(plugin::Error::permanent("no")),
            Kind::UnderWay => Ok(Ran::in_progress(Duration::from_secs(7))),
            Kind::Lost => Err(plugin::Error::unknown("the connection broke")),
        };
        self.world.step(Event::Answered(calls[at], answer));
    }

    /// Ends all that is live: everything succeeds from now on. Nothing may be left over.
    fn rest(&mut self) {
        self.world.lease(Duration::from_secs(1 << 30));
        self.season(false);
        for round in 0..400 {
            self.world.dispatched(dispatch);
            self.world.sync();
            while !self.world.probes.is_empty() {
                self.world.probed(Probed::NotHappened);
            }
            self.world.sync();
            while let Some((no, call)) = self.world.calls.pop_first() {
                let answer = answer_of(&call.function);
                self.world.step(Event::Answered(no, answer));
                self.world.dispatched(dispatch);
                self.world.sync();
            }
            let live = self.world.kernel.live.values();
            let ids: Vec<ExecutionId> = live.map(|it| it.id.clone()).collect();
            for id in ids {
                let _ = self.world.say(&id, Say::Resume);
                let yes = Say::Answer {
                    machine: "go".into(),
                    option: "yes".into(),
                };
                let _ = self.world.say(&id, yes);
                for machine in MACHINES {
                    let settle = Say::Settle {
                        machine: machine.into(),
                        settled: Settled::Outcome("done".into()),
                    };
                    let _ = self.world.say(&id, settle);
                    let _ = self.world.say(&id, Say::Replay(machine.into()));
                }
            }
            // The stack answers in time.
            for _ in 0..50 {
                self.world.pass(Duration::from_secs(8));
                self.world.dispatched(dispatch);
            }
            if self.world.kernel.live.is_empty() && round > 0 {
                return;
            }
        }
        panic!("still live: {:#?}", self.world.kernel.live);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// R23, R25, R27: whatever happens in whatever order, calls of a key never go back in their fences, no live execution
    /// waits for nothing (the kernel checks it after every step), and everything ends when functions answer and people
    /// say what they are asked.
    #[test]
    fn r27_executions_end_whatever_happens_before(acts in collection::vec(act(), 1..120)) {
        let mut judged = Judged::new();
        for act in &acts {
            judged.act(act);
            judged.look();
        }
        judged.rest();
    }
}
