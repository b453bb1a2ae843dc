//! Random histories: answers, losses, crashes, words and time in any order. A provider counts effects by key.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::operation::{EffectKey, ExecutionId, Fence};
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
    ]
}

/// The world with its provider.
struct Judged {
    world: World,
    ids: Vec<ExecutionId>,
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

impl Judged {
    fn new() -> Self {
        let functions = [
            keyed("keyed"),
            function("safe", Repeat::Safe, Guard::Advisory),
            function("never", Repeat::Never, Guard::Advisory),
        ];
        Self {
            world: World::new([workflow()], functions),
            ids: Vec::new(),
            effects: BTreeMap::new(),
            uncertain: BTreeSet::new(),
            never: BTreeMap::new(),
        }
    }

    /// What must not be repeated is not called again while it is not known what the last call has done.
    fn look(&mut self) {
        let calls = &self.world.calls;
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
        let at = usize::from(which).checked_rem(self.ids.len())?;
        Some(self.ids[at].clone())
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Start(key) => {
                let id = self.world.start("season", &key.to_string());
                if !self.ids.contains(&id) {
                    self.ids.push(id);
                }
            }
            Act::Answer(which, kind) => self.answer(*which, *kind),
            Act::Sync => self.world.sync(),
            Act::Crash => {
                self.world.crash();
                let world = &self.world;
                self.ids.retain(|id| world.kernel.is_live(id));
            }
            Act::Pass(seconds) => self.world.pass(Duration::from_secs((*seconds).into())),
            Act::Cancel(which) => self.say(*which, Say::Cancel),
            Act::Pause(which) => self.say(*which, Say::Pause),
            Act::Resume(which) => self.say(*which, Say::Resume),
            Act::Restart(which, machine) => {
                let machines = ["load", "verify", "posters", "go", "publish"];
                let name = machines[usize::from(*machine) % machines.len()];
                self.say(*which, Say::Restart(vec![name.into()]));
            }
            Act::Say(which) => {
                let option = if which % 4 == 0 { "no" } else { "yes" };
                let word = Say::Answer {
                    machine: "go".into(),
                    option: option.into(),
                };
                self.say(*which, word);
            }
            Act::Settle(which, again) => {
                let settled = match again {
                    true => Settled::Again,
                    false => Settled::Outcome("done".into()),
                };
                let word = Say::Settle {
                    machine: "publish".into(),
                    settled,
                };
                if let Some(id) = self.pick(*which)
                    && self.world.say(&id, word) == Reply::Taken
                {
                    self.uncertain.retain(|key| key.execution != id);
                }
            }
        }
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
            Kind::Done => done(),
            Kind::Fails => transient(),
            Kind::Permanent => Err(plugin::Error::permanent("no")),
            Kind::UnderWay => Ok(Ran::in_progress(Duration::from_secs(7))),
            Kind::Lost => Err(plugin::Error::unknown("the connection broke")),
        };
        self.world.step(Event::Answered(calls[at], answer));
    }

    /// Ends all that is live: everything succeeds from now on. Nothing may be left over.
    fn rest(&mut self) {
        for round in 0..400 {
            self.world.sync();
            while let Some((no, call)) = self.world.calls.pop_first() {
                let _ = call;
                self.world.step(Event::Answered(no, done()));
                self.world.sync();
            }
            for id in self.ids.clone() {
                let _ = self.world.say(&id, Say::Resume);
                let yes = Say::Answer {
                    machine: "go".into(),
                    option: "yes".into(),
                };
                let _ = self.world.say(&id, yes);
                for machine in ["load", "verify", "posters", "publish", "undo"] {
                    let settle = Say::Settle {
                        machine: machine.into(),
                        settled: Settled::Outcome("done".into()),
                    };
                    let _ = self.world.say(&id, settle);
                    let _ = self.world.say(&id, Say::Replay(machine.into()));
                }
            }
            self.world.pass(Duration::from_secs(400));
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
