//! Reports our figures beside the peers': one JSON object per phase for programs, or a table for people.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use crate::{
    measure::Sample,
    scenarios::{OURS, Scenario},
};

/// Columns of the table, in order.
const COLUMNS: [&str; 7] = [
    "ns_each",
    "bytes_each",
    "diffs_each",
    "commits_each",
    "peak_rss_mb",
    "p50_us",
    "p99_us",
];

/// Figures by name; in all of them less is better.
type Costs = BTreeMap<&'static str, f64>;

/// One phase of a scenario: our sample, the peers' samples and their ratios.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    scenario: &'static str,
    /// What our figures should be at most, in words.
    target: &'static str,
    /// Our sample; `None` if our side has no such phase.
    #[serde(flatten)]
    ours: Option<Sample>,
    peer: BTreeMap<String, Sample>,
    /// Our figures divided by the peer's, by peer.
    ratio: BTreeMap<String, Costs>,
}

impl Line {
    /// Matches our phases with the same phases of the peers and divides the figures.
    pub(crate) fn compare(
        (scenario, target): (&'static str, &'static str),
        ours: Vec<Sample>,
        peers: &BTreeMap<&str, Vec<Sample>>,
    ) -> Vec<Self> {
        let mut phases: Vec<&str> = Vec::new();
        for sample in ours.iter().chain(peers.values().flatten()) {
            if !phases.contains(&&*sample.phase) {
                phases.push(&sample.phase);
            }
        }
        let line = |phase: &&str| {
            let same = |samples: &[Sample]| samples.iter().find(|s| s.phase == **phase).cloned();
            let ours = same(&ours);
            let peer: BTreeMap<String, Sample> = peers
                .iter()
                .filter_map(|(name, samples)| Some(((*name).to_owned(), same(samples)?)))
                .collect();
            let ratio = peer
                .iter()
                .filter_map(|(name, theirs)| Some((name.clone(), ratio(ours.as_ref()?, theirs))))
                .collect();
            Self {
                scenario,
                target,
                ours,
                peer,
                ratio,
            }
        };
        phases.iter().map(line).collect()
    }
}

fn ratio(ours: &Sample, theirs: &Sample) -> Costs {
    let theirs = costs(theirs);
    let divided = |(name, cost): (&'static str, f64)| {
        let theirs = theirs.get(name).filter(|theirs| **theirs > 0.0)?;
        Some((name, cost / theirs))
    };
    costs(ours).into_iter().filter_map(divided).collect()
}

fn costs(sample: &Sample) -> Costs {
    let costs = [
        ("ns_each", sample.ns_each),
        ("bytes_each", sample.bytes_each),
        ("diffs_each", sample.diffs_each),
        ("commits_each", sample.commits_each),
        ("peak_rss_mb", Some(sample.peak_rss_mb)),
        ("p50_us", sample.p50_us),
        ("p99_us", sample.p99_us),
    ];
    let known = |(name, cost): (_, Option<f64>)| Some((name, cost?));
    costs.into_iter().filter_map(known).collect()
}

/// Formats the lines of one scenario as a table for people.
pub(crate) fn table(scenario: &Scenario, assets: usize, lines: &[Line]) -> String {
    let mut table = format!(
        "\n{} ({assets} assets): {}\ntarget: {}\n",
        scenario.name, scenario.about, scenario.target
    );
    let heads = [
        "ns each",
        "bytes each",
        "diffs each",
        "commits each",
        "peak MiB",
        "p50 us",
        "p99 us",
    ];
    let _ = write!(table, "{:<12} {:<14}", "phase", "side");
    for head in heads {
        let _ = write!(table, "{head:>13}");
    }
    let _ = writeln!(table, "{:>10}", "ours is");
    for line in lines {
        for (name, sample) in line.ours.iter().map(|ours| (OURS, ours)).chain(
            line.peer
                .iter()
                .map(|(name, sample)| (name.as_str(), sample)),
        ) {
            row(&mut table, name, sample, line.ratio.get(name));
        }
    }
    table
}

fn row(table: &mut String, side: &str, sample: &Sample, ratio: Option<&Costs>) {
    let _ = write!(table, "{:<12} {side:<14}", sample.phase);
    let costs = costs(sample);
    for name in COLUMNS {
        let shown = costs.get(name).map(|cost| format!("{cost:.1}"));
        let _ = write!(table, "{:>13}", shown.unwrap_or_default());
    }
    let main = ["p50_us", "ns_each"]
        .iter()
        .find_map(|name| ratio?.get(name));
    let times = main.map(|&times| match times {
        ..0.001 => format!("{times:.0e} x"),
        _ => format!("{times:.3} x"),
    });
    let _ = writeln!(table, "{:>10}", times.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(phase: &str, ns_each: f64) -> Sample {
        Sample {
            phase: phase.into(),
            ns_each: Some(ns_each),
            ..Sample::default()
        }
    }

    #[test]
    fn phases_are_matched_and_divided() {
        let peers = BTreeMap::from([("kube-runtime", vec![sample("a", 8.0), sample("b", 1.0)])]);
        let lines = Line::compare(("test", "1 ns"), vec![sample("b", 2.0)], &peers);
        let json: Vec<_> = lines
            .iter()
            .map(|line| serde_json::to_value(line).unwrap())
            .collect();
        assert_eq!(json[0]["phase"], "b");
        assert_eq!(json[0]["target"], "1 ns");
        assert_eq!(json[0]["ratio"]["kube-runtime"]["ns_each"], 2.0);
        assert_eq!(json[1]["peer"]["kube-runtime"]["phase"], "a");
        assert_eq!(json[1]["ratio"], serde_json::json!({}));
    }
}
