//! Random events in any order: edits, policies, assets that join and leave, drift, failed pushes, commands, late
//! reports and crashes. The toy enforcer checks every move. In the end, when all is healthy, all assets are as the
//! newest incarnation says.

use std::time::Duration;

use plugin_sdk::Judgement;
use prodspec_model::{
    Asset, AssetRef, Incarnation,
    addons::{DependsOn, Edge, Need, Turndown},
    rollout::{Amount, OnUnhealthy, RolloutPolicy, Wave},
};
use proptest::{prelude::*, test_runner::RngSeed};

use super::{
    pins::canary,
    plane::Part,
    rig::{Idea, P, Rig, config, id, of_group, policy_asset, thing},
};
use crate::{
    group::policy_of,
    kernel::{Command, Event},
};

const HOUR: Duration = Duration::from_secs(3600);
const NAMES: [&str; 6] = ["eu/a", "eu/b", "us/c", "us/d", "e", "f"];

/// The random choices for one event.
type Roll = [u8; 24];

/// A source of choices: the bytes that proptest drew, then zeros.
struct Dice(std::array::IntoIter<u8, 24>);

impl Dice {
    fn new(drawn: Roll) -> Self {
        Self(drawn.into_iter())
    }

    fn roll(&mut self, sides: u32) -> u32 {
        u32::from(self.0.next().unwrap_or(0)) % sides
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len() as u32) as usize].clone()
    }
}

fn asset(dice: &mut Dice) -> Asset {
    let name = dice.of(&NAMES);
    let policy = dice.of(&[Some(P), Some(P), Some(P), Some(P), Some("policy/q"), None]);
    let size = u64::from(dice.roll(3));
    let mut asset = of_group(policy, name, size);
    if name == "f" {
        asset = asset.payload(&Idea { size }).unwrap();
    }
    if dice.roll(3) == 0 {
        let provider = AssetRef::to(id(dice.of(&NAMES[..5])));
        let need = dice.of(&[Need::Version, Need::Capacity { unit: "qps".into() }]);
        let edges = vec![Edge { provider, need }];
        asset = asset.addon(&DependsOn { edges }).unwrap();
    }
    if dice.roll(8) == 7 {
        let turndown = Turndown {
            reason: "not needed".into(),
            approved_by: "me".into(),
        };
        asset = asset.addon(&turndown).unwrap();
    }
    asset.build().unwrap()
}

fn policy(dice: &mut Dice) -> RolloutPolicy {
    let wave = Wave {
        upto: Amount::Percent(50),
        bake_secs: 60,
    };
    let plain = RolloutPolicy::default();
    dice.of(&[
        plain.clone(),
        canary(),
        RolloutPolicy {
            max_in_flight: Some(1),
            ..plain.clone()
        },
        RolloutPolicy {
            domains: vec!["us".into(), "eu".into()],
            bake_secs: 30,
            ..plain.clone()
        },
        RolloutPolicy {
            waves: vec![wave],
            on_unhealthy: OnUnhealthy::Stop,
            ..plain.clone()
        },
        RolloutPolicy {
            hold: Some("wait".into()),
            ..plain
        },
    ])
}

fn command(dice: &mut Dice) -> Command {
    dice.of(&[
        Command::Pause,
        Command::Resume,
        Command::Promote,
        Command::Abort,
        Command::Retry,
        Command::RollBack,
        Command::HandOver,
    ])
}

fn happen(rig: &mut Rig, dice: &mut Dice) {
    let name = dice.of(&NAMES);
    match dice.roll(21) {
        0..3 => {
            let mut assets = vec![asset(dice)];
            (0..dice.roll(3)).for_each(|_| assets.push(asset(dice)));
            assets.dedup_by(|one, other| one.id() == other.id());
            let mut ids: Vec<_> = assets.iter().map(Asset::id).collect();
            ids.sort();
            ids.dedup();
            if ids.len() == assets.len() {
                rig.put(assets);
            }
        }
        3 => drop(rig.edit(vec![], &[name])),
        4 => drop(rig.put(vec![policy_asset(&policy(dice))])),
        5 => rig.plane.drift(&id(name)),
        6 if rig.plane.is_pushed(&id(name)) => rig.plane.fail_push(&id(name)),
        6 | 7 => rig.plane.settle(&id(name)),
        8 => {
            let event = Event::Command {
                command: command(dice),
                by: super::rig::by(),
                reply: 0,
            };
            rig.step(event);
        }
        9 => {
            rig.health = dice.of(&[
                Ok(Judgement::Healthy),
                Ok(Judgement::Unknown),
                Ok(Judgement::Unhealthy),
                Err("no answer".to_owned()),
            ])
        }
        10 => {
            let seconds = dice.of(&[1, 31, 61, 700]);
            rig.to(rig.now.mono + Duration::from_secs(seconds));
            rig.step(Event::Tick);
        }
        11 => rig.crash(),
        12 => rig.crash_in_step(dice.of(&[Part::Records, Part::Head, Part::SomeMoves, Part::All])),
        13 => rig.run(),
        20 => {
            let stopped = dice.of(&[None, Some(60), Some(600), Some(3600)]);
            let except = dice.of(&[&[][..], &[P], &["policy/q"]]);
            rig.line(stopped.map(Duration::from_secs), except);
        }
        14..16 => drop(rig.durable()),
        16..18 => drop(rig.deliver()),
        _ => drop(rig.answer()),
    }
    let live = rig
        .plane
        .rollouts
        .values()
        .filter(|rollout| !rollout.state.has_ended());
    assert!(live.count() <= 1, "two rollouts at once");
}

/// Makes everything healthy, and gives the commands that operators have left to give.
fn mend(rig: &mut Rig) {
    rig.health = Ok(Judgement::Healthy);
    rig.lag = Some(Duration::from_secs(1));
    rig.line(None, &[]);
    rig.swap(canary());
    for name in NAMES {
        rig.plane.restless.push(id(name));
    }
    for _ in 0..4 {
        let _ = rig.tell(Command::Resume);
        let _ = rig.tell(Command::Retry);
        rig.pass(2 * HOUR);
    }
}

fn is_as_intended(rig: &Rig) {
    assert!(!rig.view().live, "{:?}", rig.view());
    assert!(rig.plane.rows.is_empty(), "{:?}", rig.plane.rows);
    assert!(
        rig.plane.quarantine.is_empty(),
        "{:?}",
        rig.plane.quarantine
    );
    for name in NAMES {
        let newest = rig.plane.latest.asset(&id(name));
        let policy = newest.as_ref().and_then(policy_of);
        // The other group never completes a rollout.
        let ours = policy.is_none_or(|policy| policy == id(P));
        let Some(newest) = newest.filter(|_| ours) else {
            continue;
        };
        // Assets that the other group had are let go by that group.
        let others = |of: &Incarnation| {
            of.asset(&id(name)).as_ref().and_then(policy_of) == Some(id("policy/q"))
        };
        let kept = rig.plane.all.values().any(others);
        if kept && !rig.plane.is_governed(&id(name)) {
            continue;
        }
        // Pins of modelled-only assets are not reported: after a crash the group does not know the pin of one that
        // comes back.
        let left =
            |of: &Incarnation| of.asset(&id(name)).as_ref().and_then(policy_of) != Some(id(P));
        let strange = rig.crashes > 0 && rig.plane.all.values().any(left);
        if strange && !rig.plane.is_enforced(&id(name)) {
            continue;
        }
        let pin = rig.plane.pins.get(&id(name));
        assert_eq!(
            rig.plane.content(&id(name)),
            Some(newest.digest()),
            "{name}, {pin:?}"
        );
        // A step that was only partly made may leave the pin of a modelled-only asset; it has the same content.
        assert!(pin.is_none() || !rig.plane.is_enforced(&id(name)), "{name}");
    }
}

fn play(first: Roll, events: Vec<Roll>) {
    let mut dice = Dice::new(first);
    let config = config().max_moves_per_step(1 + dice.roll(3) as usize);
    let first = NAMES[..3].iter().map(|name| thing(name, 0)).collect();
    let mut rig = Rig::with(config, policy(&mut dice), first);
    rig.lag = dice.of(&[None, Some(Duration::from_secs(3))]);
    for drawn in events {
        happen(&mut rig, &mut Dice::new(drawn));
    }
    mend(&mut rig);
    is_as_intended(&rig);
}

/// Uses the same cases each time. `PROPTEST_RNG_SEED` and `PROPTEST_CASES` choose other and more cases.
fn config_of_proptest() -> ProptestConfig {
    let given = ProptestConfig::default();
    ProptestConfig {
        rng_seed: match given.rng_seed {
            RngSeed::Random => RngSeed::Fixed(1),
            fixed => fixed,
        },
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..given
    }
}

proptest! {
    #![proptest_config(config_of_proptest())]

    #[test]
    fn any_sequence_of_events_reaches_intent_and_breaks_no_rule(first: Roll, events in prop::collection::vec(any::<Roll>(), 0..150)) {
        play(first, events);
    }
}
