//! The published cases of R104, and its law.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use plugin_sdk::By;
use prodspec_model::{
    AssetId, Filter,
    train::{Stage, Train},
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Command, Outcome, TrainRecord, VersionNo, preview};

#[derive(Deserialize)]
struct Case {
    name: String,
    bakes: Vec<i64>,
    offers: Vec<(String, i64)>,
    #[serde(default)]
    fails: Vec<Fails>,
    #[serde(default)]
    way_back: i64,
    #[serde(default)]
    hotfixes: Vec<ByHand>,
    #[serde(default)]
    skips: Vec<ByHand>,
    #[serde(default)]
    holds: Vec<Hold>,
    #[serde(default)]
    weekdays_only: Vec<usize>,
    until: Option<i64>,
    expected: Expected,
}

#[derive(Deserialize)]
struct Fails {
    version: String,
    stage: usize,
    after: i64,
}

#[derive(Deserialize)]
struct ByHand {
    at: i64,
    version: String,
    stage: usize,
}

#[derive(Deserialize)]
struct Hold {
    stage: usize,
    from: i64,
    until: i64,
}

#[derive(Deserialize, Debug, PartialEq, Default)]
struct Expected {
    arrivals: Vec<Fact>,
    ripe: Vec<Fact>,
    #[serde(default)]
    failed: Vec<Fact>,
}

#[derive(Deserialize, Debug, PartialEq, Clone)]
struct Fact {
    at: i64,
    version: String,
    stage: usize,
}

/// A time, in minutes since a Monday.
fn minute(at: i64) -> Timestamp {
    let monday: Timestamp = "2026-11-30T00:00:00Z".parse().unwrap();
    monday + jiff::SignedDuration::from_mins(at)
}

fn train_of(stages: usize, weekdays_only: &[usize]) -> Train {
    let stage = |at: usize| {
        let policy = AssetId::new("policy/slow").unwrap();
        let stage = Stage::new(at.to_string(), Filter::default(), policy);
        match weekdays_only.contains(&at) {
            true => stage.weekdays_in("UTC"),
            false => stage,
        }
    };
    (0..stages).fold(Train::new("version"), |train, at| train.stage(stage(at)))
}

fn by() -> By {
    By::new("ada", "a test")
}

/// The end of a run of a stage.
enum End {
    Ripe,
    Fails,
    IsBack,
}

/// Plays a case minute by minute.
struct World {
    record: TrainRecord,
    train: Train,
    ends: BTreeMap<usize, (i64, String, End)>,
    seen: Expected,
}

impl World {
    fn tell(&mut self, command: Command, now: i64) {
        let told = self.record.command(&self.train, command, by(), minute(now));
        told.unwrap();
    }

    fn people(&mut self, case: &Case, now: i64) {
        for (version, at) in &case.offers {
            if *at == now {
                self.tell(Command::Offer(json!(version)), now);
            }
        }
        let stage = |at: usize| at.to_string();
        for it in case.hotfixes.iter().filter(|it| it.at == now) {
            let (stage, version) = (stage(it.stage), json!(it.version));
            self.tell(Command::Hotfix { stage, version }, now);
        }
        for it in case.skips.iter().filter(|it| it.at == now) {
            let (stage, version) = (stage(it.stage), json!(it.version));
            self.tell(Command::Skip { stage, version }, now);
        }
        for it in &case.holds {
            if it.from == now {
                self.tell(Command::HoldStage(stage(it.stage)), now);
            }
            if it.until == now {
                self.tell(Command::ReleaseStage(stage(it.stage)), now);
            }
        }
    }

    fn end(&mut self, case: &Case, now: i64) {
        let over = self.ends.extract_if(.., |_, (at, ..)| *at <= now);
        let over: Vec<_> = over.collect();
        for (stage, (_, version, end)) in over {
            let fact = Fact {
                at: now,
                version: version.clone(),
                stage,
            };
            let outcome = match end {
                End::Ripe => {
                    self.seen.ripe.push(fact);
                    Outcome::Completed
                }
                End::Fails => {
                    self.seen.failed.push(fact);
                    let back = (now + case.way_back, version, End::IsBack);
                    self.ends.insert(stage, back);
                    continue;
                }
                End::IsBack => Outcome::RolledBack("unhealthy".into()),
            };
            let stage = stage.to_string();
            let run = self.record.run(&stage).cloned().unwrap();
            self.record.ended(&stage, &run, outcome, minute(now));
        }
    }

    fn begin(&mut self, case: &Case, now: i64) {
        for at in 0..self.train.stages.len() {
            let stage = at.to_string();
            let Some(run) = self.record.run(&stage).cloned() else {
                continue;
            };
            if run.leaves.is_some() {
                self.ends.remove(&at);
                self.record.ended(&stage, &run, Outcome::Left, minute(now));
                self.record.decide(&self.train, minute(now));
                return self.begin(case, now);
            }
            if self.ends.contains_key(&at) {
                continue;
            }
            let version = self.record.version(run.version).unwrap();
            let version = version.value.as_str().unwrap().to_owned();
            let fact = Fact {
                at: now,
                version: version.clone(),
                stage: at,
            };
            self.seen.arrivals.push(fact);
            let mut fails = case.fails.iter();
            let end = match fails.find(|it| it.version == version && it.stage == at) {
                Some(fails) => (now + fails.after, version, End::Fails),
                None => (now + case.bakes[at], version, End::Ripe),
            };
            self.ends.insert(at, end);
        }
    }
}

/// Sorts facts, because those of one minute have no order.
fn sorted(mut facts: Vec<Fact>) -> Vec<Fact> {
    facts.sort_by_key(|it| (it.at, it.stage));
    facts
}

fn play(case: &Case) -> Expected {
    played(case).seen
}

fn played(case: &Case) -> World {
    let mut world = World {
        record: TrainRecord::default(),
        train: train_of(case.bakes.len(), &case.weekdays_only),
        ends: BTreeMap::new(),
        seen: Expected::default(),
    };
    let all = case.bakes.iter().sum::<i64>() * 20;
    let last = case.offers.last().map_or(0, |(_, at)| *at);
    for now in 0..=case.until.unwrap_or(last + all) {
        world.people(case, now);
        world.end(case, now);
        // The record may be read by another owner at any time.
        if now % 50 == 0 {
            let stored = serde_json::to_string(&world.record).unwrap();
            world.record = serde_json::from_str(&stored).unwrap();
        }
        world.record.decide(&world.train, minute(now));
        world.begin(case, now);
    }
    world
}

/// A case without people and failures.
fn smooth(bakes: &[i64], offers: Vec<(String, i64)>, until: Option<i64>) -> Case {
    Case {
        name: String::new(),
        bakes: bakes.to_vec(),
        offers,
        fails: Vec::new(),
        way_back: 0,
        hotfixes: Vec::new(),
        skips: Vec::new(),
        holds: Vec::new(),
        weekdays_only: Vec::new(),
        until,
        expected: Expected::default(),
    }
}

/// One version each minute.
fn each_minute(count: i64) -> Vec<(String, i64)> {
    (0..count).map(|n| (format!("v{n}"), n)).collect()
}

fn cases() -> Vec<Case> {
    #[derive(Deserialize)]
    struct All {
        cases: Vec<Case>,
    }
    let all: All = serde_json::from_str(include_str!("../../tests/data/trains.json")).unwrap();
    all.cases
}

#[test]
fn r104_published_cases() {
    for case in cases() {
        let Expected {
            arrivals,
            ripe,
            failed,
        } = play(&case);
        let name = &case.name;
        assert_eq!(
            sorted(arrivals),
            sorted(case.expected.arrivals.clone()),
            "{name}: arrivals"
        );
        assert_eq!(
            sorted(ripe),
            sorted(case.expected.ripe.clone()),
            "{name}: ripe"
        );
        assert_eq!(
            sorted(failed),
            sorted(case.expected.failed.clone()),
            "{name}: failed"
        );
    }
}

#[test]
fn r104_preview_is_what_happens() {
    for case in cases() {
        if !case.fails.is_empty()
            || !case.hotfixes.is_empty()
            || !case.skips.is_empty()
            || !case.holds.is_empty()
        {
            continue;
        }
        let train = train_of(case.bakes.len(), &case.weekdays_only);
        let takes = case.bakes.iter().enumerate();
        let takes =
            takes.map(|(at, bake)| (at.to_string(), Duration::from_secs(*bake as u64 * 60)));
        let offers = case.offers.iter();
        let offers: Vec<(Timestamp, Value)> =
            offers.map(|(it, at)| (minute(*at), json!(it))).collect();
        let until = minute(case.until.unwrap_or(1_000_000));
        let seen = preview(
            &TrainRecord::default(),
            &train,
            &takes.collect(),
            &offers,
            (minute(0), until),
        );
        let seen = seen.into_iter().map(|it| Fact {
            at: it.at.duration_since(minute(0)).as_mins(),
            version: it.version.as_str().unwrap().to_owned(),
            stage: it.stage.parse().unwrap(),
        });
        assert_eq!(
            sorted(seen.collect()),
            sorted(case.expected.arrivals),
            "{}",
            case.name
        );
    }
}

#[test]
fn r104_versions_that_enter_no_stage_any_more_are_forgotten() {
    let world = played(&smooth(&[1, 2], each_minute(300), None));
    let many = world.record.versions.len();
    assert!(many <= 22, "{many} versions");
    // While the last stage is busy, 60 versions become ripe before it. When all but an old one fail, that one enters.
    let mut case = smooth(&[1, 1_000], each_minute(60), Some(3_000));
    let fails = (6..60).map(|n| Fails {
        version: format!("v{n}"),
        stage: 1,
        after: 1,
    });
    case.fails = fails.collect();
    let seen = play(&case);
    let last = seen.arrivals.last().unwrap();
    assert_eq!((last.version.as_str(), last.stage), ("v5", 1));
}

#[test]
fn r104_failure_counts_although_the_version_is_displaced() {
    let train = train_of(1, &[]);
    let mut record = TrainRecord::default();
    let stage = "0".to_owned();
    let version = json!("v1.1");
    for command in [
        Command::Offer(json!("v1")),
        Command::Hotfix { stage, version },
    ] {
        record.command(&train, command, by(), minute(0)).unwrap();
        record.decide(&train, minute(0));
    }
    let run = record.run("0").unwrap().clone();
    assert!(run.leaves.is_some());
    let unhealthy = || Outcome::RolledBack("unhealthy".to_owned());
    record.ended("0", &run, unhealthy(), minute(1));
    record.decide(&train, minute(1));
    let hotfix = record.run("0").unwrap().clone();
    assert_eq!(hotfix.version, VersionNo(2));
    record.ended("0", &hotfix, unhealthy(), minute(2));
    record.decide(&train, minute(2));
    assert_eq!(record.run("0"), None, "both have failed");
}

#[test]
fn r104_held_version_enters_no_stage_until_it_is_released() {
    let train = train_of(1, &[]);
    let mut record = TrainRecord::default();
    for command in [
        Command::Offer(json!("v1")),
        Command::Offer(json!("v2")),
        Command::HoldVersion(json!("v2")),
    ] {
        record.command(&train, command, by(), minute(0)).unwrap();
    }
    record.decide(&train, minute(0));
    assert_eq!(record.has("0"), Some(VersionNo(1)));
    let run = record.run("0").unwrap().clone();
    record.ended("0", &run, Outcome::Completed, minute(1));
    record.decide(&train, minute(1));
    assert_eq!(record.run("0"), None);
    let release = Command::ReleaseVersion(json!("v2"));
    record.command(&train, release, by(), minute(2)).unwrap();
    record.decide(&train, minute(2));
    assert_eq!(record.has("0"), Some(VersionNo(2)));
}

#[test]
fn r104_end_of_another_run_is_ignored() {
    let train = train_of(1, &[]);
    let mut record = TrainRecord::default();
    let offer = |record: &mut TrainRecord, version| {
        let offer = Command::Offer(json!(version));
        record.command(&train, offer, by(), minute(0)).unwrap();
        record.decide(&train, minute(0));
    };
    offer(&mut record, "v1");
    let first = record.run("0").unwrap().clone();
    record.number("0", &first, 1);
    record.ended("0", &first, Outcome::Completed, minute(1));
    assert!(record.run("0").is_some(), "it has a number now");
    let first = record.run("0").unwrap().clone();
    offer(&mut record, "v2");
    record.ended("0", &first, Outcome::Completed, minute(1));
    record.decide(&train, minute(1));
    // The former owner sees the end late.
    record.ended("0", &first, Outcome::Completed, minute(2));
    assert_eq!(record.has("0"), Some(VersionNo(2)));
    assert!(record.versions[1].stages["0"].ripe.is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// At its arrival in a stage, a version is not older than the law says, and it is replaced in time.
    #[test]
    fn r104_age_and_turn_keep_the_law(
        every in 1..40_i64,
        bakes in prop::collection::vec(1..80_i64, 1..5),
    ) {
        let offers: Vec<(String, i64)> = (0..40).map(|n| (format!("v{n}"), n * every)).collect();
        let last = 39 * every;
        let case = smooth(&bakes, offers.clone(), Some(last));
        let seen = play(&case);
        let mut turn = every;
        let mut age = 0;
        for (stage, bake) in bakes.iter().enumerate() {
            age += if *bake > turn { turn } else { 0 };
            turn = turn.max(*bake);
            let arrivals: Vec<&Fact> = seen.arrivals.iter().filter(|it| it.stage == stage).collect();
            for arrival in &arrivals {
                let offered = offers.iter().find(|(it, _)| *it == arrival.version).unwrap().1;
                prop_assert!(arrival.at - offered <= age, "{arrival:?} is older than {age}");
            }
            for pair in arrivals.windows(2) {
                prop_assert!(pair[1].at - pair[0].at <= turn, "{pair:?}: more than {turn}");
            }
            age += bake;
        }
    }

    /// A version enters no stage before it was ripe in the one before, none where it failed, and none that has a newer one.
    #[test]
    fn r104_stages_take_only_what_is_ripe_before_them(
        bakes in prop::collection::vec(1..30_i64, 1..4),
        offers in prop::collection::vec(1..20_i64, 1..20),
        fails in prop::collection::vec((0..20_usize, 0..4_usize, 0..20_i64), 0..8),
        way_back in 0..20_i64,
    ) {
        let mut at = 0;
        let offers = offers.into_iter().enumerate().map(|(n, after)| {
            at += after;
            (format!("v{n}"), at)
        });
        let fails = fails.into_iter().map(|(version, stage, after)| Fails {
            version: format!("v{version}"),
            stage,
            after,
        });
        let mut case = smooth(&bakes, offers.collect(), None);
        (case.fails, case.way_back) = (fails.collect(), way_back);
        let seen = play(&case);
        let number = |it: &Fact| it.version[1..].parse::<u64>().unwrap();
        for arrival in &seen.arrivals {
            let same = |it: &&Fact| it.version == arrival.version && it.at <= arrival.at;
            let mut ripe = seen.ripe.iter().filter(same);
            let before = arrival.stage.checked_sub(1);
            prop_assert!(before.is_none_or(|before| ripe.any(|it| it.stage == before)));
            let mut failed = seen.failed.iter().filter(same);
            prop_assert!(!failed.any(|it| it.stage <= arrival.stage && it.at < arrival.at));
            let mut newer = seen.ripe.iter().filter(|it| it.stage == arrival.stage && it.at <= arrival.at);
            prop_assert!(!newer.any(|it| number(it) > number(arrival)));
        }
        // In the end, the last stage has the newest version that came to its gate and failed nowhere.
        let last = case.bakes.len() - 1;
        let ripe = |version: &str, stage| seen.ripe.iter().any(|it| it.version == version && it.stage == stage);
        let good = |version: &str| {
            let failed = seen.failed.iter().any(|it| it.version == version);
            !failed && (last == 0 || ripe(version, last - 1))
        };
        let good = case.offers.iter().rev().find(|(it, _)| good(it)).map(|it| it.0.clone());
        let there = seen.ripe.iter().rev().find(|it| it.stage == last).map(|it| it.version.clone());
        prop_assert_eq!(there, good);
    }
}
