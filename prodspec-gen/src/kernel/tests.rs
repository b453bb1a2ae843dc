//! The rules by which changes are coalesced into runs, in virtual time.

use control_plane_runtime::Kernel as _;
use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Now {
    Now {
        mono: Mono(ms * 1_000_000),
        wall: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// A simulated shell in which a run takes `takes` ms, driven event by event. All times are in ms.
struct World {
    kernel: Kernel,
    takes: u64,
    now: u64,
    wake: Option<u64>,
    ends: Option<u64>,
    runs: Vec<u64>,
}

impl World {
    fn new(takes: u64) -> Self {
        Self {
            kernel: Kernel::new(Timing::default()),
            takes,
            now: 0,
            wake: None,
            ends: None,
            runs: Vec::new(),
        }
    }

    fn event(&mut self, event: Event) {
        let mut out = Vec::new();
        self.kernel.step(at(self.now), event, &mut out);
        for effect in out {
            match effect {
                Effect::ReadSources => {
                    assert!(self.ends.is_none(), "one run at a time");
                    self.runs.push(self.now);
                    self.ends = Some(self.now + self.takes);
                }
                Effect::Wake(then) => self.wake = Some(then.0 / 1_000_000),
                Effect::RunGenerators => self.event(Event::Generated(Generated::Unchanged)),
                Effect::RecordRevisions => self.event(Event::Recorded(true)),
                Effect::Validate | Effect::Seal => {
                    unreachable!("every run of this simulation ends unchanged")
                }
            }
        }
    }

    /// Lets time pass until `then`, and delivers the events that are due before.
    fn until(&mut self, then: u64) {
        loop {
            let next = [self.ends, self.wake].into_iter().flatten().min();
            match next {
                Some(next) if next <= then => {
                    self.now = next.max(self.now);
                    if self.ends == Some(next) {
                        self.ends = None;
                        self.event(Event::Read);
                    } else {
                        self.wake = None;
                        self.event(Event::Tick);
                    }
                }
                _ => break,
            }
        }
        self.now = then;
    }

    fn change(&mut self, then: u64) {
        self.until(then);
        self.event(Event::SourceChanged);
    }
}

#[test]
fn r2_run_starts_after_200_ms_of_quiet() {
    let mut world = World::new(10);
    world.change(1_000);
    world.change(1_150);
    world.change(1_300);
    world.until(10_000);
    assert_eq!(world.runs, [1_500]);
}

#[test]
fn r2_run_starts_5_s_after_the_first_change_without_quiet() {
    let mut world = World::new(10);
    for change in 0..100 {
        world.change(100 * change);
    }
    world.until(20_000);
    assert_eq!(world.runs, [5_000, 10_000]);
}

#[test]
fn r2_changes_during_a_run_queue_exactly_one_more() {
    let mut world = World::new(3_000);
    world.change(0);
    for change in [500, 900, 1_300, 2_900] {
        world.change(change);
    }
    world.until(20_000);
    assert_eq!(world.runs, [200, 3_200]);
}

#[test]
fn requested_run_does_not_wait_for_quiet() {
    let mut world = World::new(10);
    world.until(70);
    world.event(Event::Asked);
    assert_eq!(world.runs, [70]);
}

#[test]
fn failed_runs_are_repeated_with_growing_pauses() {
    let mut kernel = Kernel::new(Timing::default());
    let mut now = 0;
    let mut pauses = Vec::new();
    kernel.step(at(now), Event::Asked, &mut Vec::new());
    for _ in 0..9 {
        kernel.step(at(now), Event::Read, &mut Vec::new());
        let mut out = Vec::new();
        kernel.step(at(now), Event::Generated(Generated::Failed), &mut out);
        let [Effect::Wake(then)] = out[..] else {
            panic!("{out:?}")
        };
        pauses.push(then.0 / 1_000_000_000 - now / 1_000);
        now = then.0 / 1_000_000;
        kernel.step(at(now), Event::Tick, &mut Vec::new());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

#[test]
fn answers_outside_their_phase_change_nothing() {
    let mut kernel = Kernel::new(Timing::default());
    let mut out = Vec::new();
    kernel.step(at(0), Event::Recorded(true), &mut out);
    kernel.step(at(0), Event::Validated(Verdict::Passed), &mut out);
    assert_eq!(out, []);
}

proptest! {
    /// After every change a run starts in time. Runs never overlap, and no run starts without a reason.
    #[test]
    fn r2_every_change_starts_a_run_in_time(gaps in prop::collection::vec(0_u64..3_000, 1..60), takes in 1_u64..8_000) {
        let mut world = World::new(takes);
        let mut changes = Vec::new();
        let mut now = 0;
        for gap in gaps {
            now += gap;
            changes.push(now);
            world.change(now);
        }
        world.until(now + 5_000 + 2 * takes);
        for change in &changes {
            let taken = world.runs.iter().find(|run| *run > change);
            prop_assert!(taken.is_some_and(|run| run - change <= 5_000 + takes), "{change}: {:?}", world.runs);
        }
        for pair in world.runs.windows(2) {
            prop_assert!(pair[1] - pair[0] >= takes);
            prop_assert!(changes.iter().any(|change| (pair[0]..pair[1]).contains(change)), "{:?}", world.runs);
        }
    }
}
