//! A takeover of ten thousand assets: production is not flooded with calls, and no asset is forgotten.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use control_plane_store::records::{AssetRecord, Settled};
use plugin_sdk::{Diff, FencingToken, Mono, Now, Run};
use prodspec_model::{Asset, Incarnation, IncarnationNo};

use super::rig::{Rig, id, kind, seal, thing};
use crate::{
    config::{Config, TypeConfig},
    kernel::{AtFloor, Call, Event, Recovered},
};

const ALL: usize = 10_000;
/// One of this many assets was edited while no owner ran.
const EDITED: usize = 10;
/// The time that production takes to answer a diff.
const LATENCY: Duration = Duration::from_millis(200);
const PERIOD: Duration = Duration::from_secs(300);
const SECOND: Duration = Duration::from_secs(1);

fn name(at: usize) -> String {
    format!("a{at:05}")
}

fn is_edited(at: usize) -> bool {
    at.is_multiple_of(EDITED)
}

/// The record of an asset that was in sync.
fn settled(asset: &Asset) -> AssetRecord {
    let settled = Settled {
        incarnation: IncarnationNo(1),
        content: asset.digest(),
        at: "2025-12-31T23:00:00Z".parse().unwrap(),
    };
    AssetRecord {
        settled: Some(settled),
        ..AssetRecord::default()
    }
}

/// The floor at `incarnation`, recorded by a program with these types.
pub(super) fn at_floor(incarnation: &Incarnation, kinds: &[TypeConfig]) -> AtFloor {
    AtFloor {
        incarnation: incarnation.clone(),
        types: kinds.iter().map(|kind| kind.name.clone()).collect(),
    }
}

/// A new owner that recovers from a record for `each` asset, or from one record for all.
fn taken_over(each: bool) -> Rig {
    let before: Vec<Asset> = (0..ALL).map(|at| thing(&name(at), 1)).collect();
    let edited = (0..ALL).filter(|at| is_edited(*at));
    let edited = edited.map(|at| thing(&name(at), 2)).collect();
    let old = seal(None, before.clone(), &[]);
    let mut recovered = Recovered::nothing(seal(Some(&old), edited, &[]));
    if each {
        let records = before.iter().map(|asset| (asset.id(), settled(asset)));
        recovered.assets = records.collect();
    } else {
        recovered.floor = Some(at_floor(&old, &[kind()]));
    }
    let now = Now {
        mono: Mono(1_000_000_000),
        wall: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let kinds = vec![kind()];
    Rig::recover(Config::default(), kinds, FencingToken(2), recovered, now)
}

/// The diffs that production was asked for.
#[derive(Default)]
struct Asked {
    /// The times of the diffs since the takeover, by asset.
    when: BTreeMap<String, Vec<Duration>>,
    /// Maximum number of concurrent diffs.
    at_once: usize,
}

impl Asked {
    /// Maximum number of diffs in any second, of all assets or only of those that were not edited.
    fn peak(&self, all: bool, until: Duration) -> usize {
        let edited = |asset: &str| asset[1..].parse().is_ok_and(is_edited);
        let counted = self.when.iter().filter(|(asset, _)| all || !edited(asset));
        let times = counted.flat_map(|(_, times)| times);
        let mut times: Vec<_> = times.filter(|time| **time < until).collect();
        times.sort_unstable();
        let mut window = VecDeque::new();
        let mut most = 0;
        for time in times {
            window.push_back(*time);
            while window.front().is_some_and(|first| *first + SECOND <= *time) {
                window.pop_front();
            }
            most = most.max(window.len());
        }
        most
    }
}

/// Lets time pass; production answers that all assets are in sync.
fn play(rig: &mut Rig, time: Duration) -> Asked {
    let start = rig.now.mono;
    let (mut asked, mut under_way) = (Asked::default(), VecDeque::<(Duration, Run)>::new());
    loop {
        let now = rig.now.mono.since(start);
        // At the end all open diffs are answered.
        while let Some((_, run)) = under_way.pop_front_if(|(due, _)| *due <= now || now >= time) {
            let answer = Ok(Diff::in_sync());
            rig.step(Event::DiffDone { run, answer });
        }
        if now >= time {
            return asked;
        }
        for call in std::mem::take(&mut rig.calls) {
            let Call::Diff(target) = call else {
                panic!("all assets are in sync, but the kernel calls {call:?}");
            };
            let times = asked.when.entry(target.asset.id_str().to_owned());
            times.or_default().push(now);
            under_way.push_back((now + LATENCY, target.run));
        }
        asked.at_once = asked.at_once.max(under_way.len());
        rig.pass(Duration::from_millis(10));
    }
}

fn spreads_its_diffs(each: bool) {
    let mut rig = taken_over(each);
    let first = play(&mut rig, PERIOD + SECOND);
    assert_eq!(first.when.len(), ALL, "every asset is diffed in one period");
    // More assets were edited than the plugin may be asked for at once.
    assert_eq!(first.at_once, kind().diffs as usize);
    let next = play(&mut rig, PERIOD);
    let steady = (ALL as f64 / PERIOD.as_secs_f64()).ceil() as usize;
    for (peak, what) in [
        (first.peak(false, PERIOD), "at first"),
        (next.peak(true, PERIOD), "later"),
    ] {
        assert!(
            peak <= 2 * steady,
            "{what}: {peak} in a second, of {steady}"
        );
    }
    // Edited assets do not wait for their turn in the drift scan.
    let late = |at: usize| first.when[&name(at)][0] > SECOND * 5;
    assert!(!(0..ALL).any(|at| is_edited(at) && late(at)));
    // The other assets are spread evenly over the period.
    let rest = || (0..ALL).filter(|at| !is_edited(*at));
    let mut tenths = [0_usize; 11];
    for at in rest() {
        let tenth = first.when[&name(at)][0].as_secs() / (PERIOD.as_secs() / 10);
        tenths[tenth as usize] += 1;
    }
    assert!(
        tenths[..10].iter().all(|many| *many > ALL / 20),
        "{tenths:?}"
    );
    assert_eq!(rig.kernel.unsettled(), 0);
    assert!(rig.kernel.explain(rig.now, &id(&name(1))).is_some());
}

#[test]
fn l2_takeover_spreads_ten_thousand_diffs_over_a_drift_period() {
    spreads_its_diffs(true);
}

#[test]
fn l2_takeover_with_one_record_for_all_spreads_its_diffs_too() {
    spreads_its_diffs(false);
}
