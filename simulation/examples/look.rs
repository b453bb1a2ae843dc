//! Scratch.
use annealing_enforcer::kernel::Bug as Enf;
use annealing_strategist::kernel::Bug;
use simulation::{
    Scenario,
    faults::{Fault, Rates},
    run,
};
use std::time::Duration;

fn by_hand(seed: u64) -> Scenario {
    let mut scenario = Scenario::choose(seed);
    scenario.rates = Rates::only(&[
        (Fault::DriftContent, 900),
        (Fault::DriftCapacity, 300),
        (Fault::DriftDeletion, 200),
        (Fault::CheckSaysNo, 900),
        (Fault::EditRevises, 900),
        (Fault::EditResizes, 100),
        (Fault::EditBad, 300),
        (Fault::EditMends, 200),
    ]);
    scenario.store_faults = [0; 6];
    scenario.enforcers = 1;
    scenario.edit_every = Duration::from_secs(20);
    scenario.ordered = 1000;
    scenario
}
fn bad(seed: u64) -> Scenario {
    let mut scenario = by_hand(seed);
    scenario.rates = Rates::only(&[
        (Fault::EditRevises, 900),
        (Fault::EditBad, 300),
        (Fault::EditMends, 200),
    ]);
    scenario.stubborn = 1000;
    scenario.edit_every =
        Duration::from_secs(std::env::var("EVERY").map_or(20, |e| e.parse().unwrap()));
    scenario
}
fn mutual(seed: u64) -> Scenario {
    let mut scenario = by_hand(seed);
    scenario.rates = Rates::only(&[
        (Fault::DriftContent, 900),
        (Fault::DriftCapacity, 300),
        (Fault::DriftDeletion, 200),
        (Fault::CheckSaysNo, 300),
        (Fault::EditRevises, 900),
        (Fault::EditResizes, 100),
        (Fault::EditGroup, 200),
        (Fault::PersonOnRollout, 200),
        (Fault::EditBad, 300),
        (Fault::EditMends, 200),
    ]);
    scenario.mutual = true;
    scenario.knit = 700;
    scenario.stubborn = 1000;
    scenario
}
fn removing(seed: u64) -> Scenario {
    let mut scenario = Scenario::choose(seed);
    scenario.rates = Rates::only(&[
        (Fault::EditTurnsDown, 900),
        (Fault::EditAdds, 700),
        (Fault::EditRevises, 300),
        (Fault::LostAnswer, 200),
        (Fault::HangPush, 200),
        (Fault::Transient, 200),
        (Fault::Crash, 200),
        (Fault::Stop, 100),
    ]);
    scenario.store_faults = [0; 6];
    scenario.edit_every = Duration::from_secs(10);
    scenario
}
fn main() {
    let mut args = std::env::args().skip(1);
    let which = args.next().unwrap();
    let plant = args.next().unwrap();
    let first: u64 = args.next().unwrap().parse().unwrap();
    let count: u64 = args.next().unwrap().parse().unwrap();
    let tail: usize = args.next().map_or(0, |t| t.parse().unwrap());
    let mut sum = simulation::Sum::default();
    for seed in first..first + count {
        let mut scenario = match which.as_str() {
            "hand" => by_hand(seed),
            "bad" => bad(seed),
            "hand7" => {
                let mut s = by_hand(seed);
                s.rates = Rates::only(&[
                    (Fault::DriftContent, 900),
                    (Fault::DriftCapacity, 300),
                    (Fault::DriftDeletion, 200),
                    (Fault::CheckSaysNo, 900),
                    (Fault::EditRevises, 900),
                    (Fault::EditResizes, 100),
                    (Fault::EditBad, 300),
                    (Fault::EditMends, 200),
                    (Fault::EditMovesEdge, 200),
                    (Fault::EditAdds, 200),
                    (Fault::EditRemoves, 150),
                    (Fault::EditTurnsDown, 100),
                ]);
                s
            }
            "removing" => removing(seed),
            "mutual" => mutual(seed),
            "clock" => {
                let mut s = Scenario::choose(seed);
                s.busy(&[
                    (Fault::ClockHour, 500),
                    (Fault::Crash, 100),
                    (Fault::Stop, 300),
                ]);
                s.enforcers = 2;
                s
            }
            _ => Scenario::choose(seed),
        };
        match plant.as_str() {
            "consumer" => scenario.planted = Some(Enf::JudgeAtConsumer),
            "repeated" => scenario.planted = Some(Enf::KeepRepeated),
            "patient" => scenario.patient_order = true,
            "nocure" => scenario.planted = Some(Enf::NoCureUnderEdit),
            "wall" => scenario.planted_in_rollouts = Some(Bug::WallClockBase),
            "never" => {
                scenario.stubborn = 1000;
                scenario.planted_in_rollouts = Some(Bug::NeverBack)
            }
            _ => {}
        }
        let report = run(seed, &scenario);
        let saved: Vec<_> = report
            .counts
            .iter()
            .filter(|(n, c)| n.starts_with("people") && **c > 0)
            .collect();
        if !saved.is_empty() {
            println!("seed {seed}: {saved:?}");
        }
        if let Some(v) = &report.violation {
            for line in &report.tail[report.tail.len().saturating_sub(tail)..] {
                println!("  {line}");
            }
            println!("seed {seed}: {} {}", v.invariant, v.what);
        }
        sum.add(report, true);
    }
    for (name, count) in &sum.counts {
        if !name.starts_with("store") && !name.starts_with("branch") && !name.starts_with("fault") {
            println!("{count:>12} {name}");
        }
    }
    println!("{} seeds {} violations", sum.seeds, sum.violations.len());
}
