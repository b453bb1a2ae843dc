//! Owners that pause, crash, read old data and lose answers, checked by a judge that knows the true time.

use std::{
    collections::BTreeSet,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, StreamExt, executor::block_on, future::BoxFuture, task::noop_waker};
use plugin_sdk::{FencingToken, Mono};
use prodspec_model::PartitionId;
use proptest::{prelude::*, test_runner::TestRunner};

use super::*;
use crate::{Batch, CommitError, MemoryStore, Store, Version, memory::Fault};

const TERM: Duration = Duration::from_secs(15);

fn partition() -> PartitionId {
    "a".parse().unwrap()
}

fn partitions() -> [PartitionId; 2] {
    ["a", "b"].map(|name| name.parse().unwrap())
}

/// The true time, and clocks with an offset to it.
#[derive(Clone, Default)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    fn clock(&self, offset: Duration) -> Clock {
        let time = self.clone();
        Arc::new(move || Mono(time.0.load(Ordering::Relaxed)) + offset)
    }
}

fn process(store: &MemoryStore, time: &Time, name: &str, offset: u64) -> Process {
    let clock = time.clock(Duration::from_secs(offset));
    Process::new(Arc::new(store.other()), name.into(), TERM, clock)
}

/// Two processes with a valid lease.
fn two(store: &MemoryStore, time: &Time) -> [Process; 2] {
    ["one", "two"].map(|name| {
        let mut process = process(store, time, name, 0);
        block_on(process.beat()).unwrap();
        process
    })
}

fn token(acquired: Acquire) -> FencingToken {
    match acquired {
        Acquire::Acquired { token } => token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn s5_a_token_is_above_what_production_has_seen() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let [mut one, mut two] = two(&store, &time);
    let first = token(block_on(one.acquire(&partition())).unwrap());
    let seen = FencingToken(first.0 + 1_000_000);
    one.raise(&partition(), seen);
    one.raise(&partition(), first);
    let held = token(block_on(one.acquire(&partition())).unwrap());
    assert_eq!(held, first, "an ownership keeps its token");
    block_on(one.release(&partition())).unwrap();
    let above = token(block_on(one.acquire(&partition())).unwrap());
    assert!(above > seen, "{above:?}");
    block_on(one.beat()).unwrap();
    block_on(one.release(&partition())).unwrap();
    let next = token(block_on(two.acquire(&partition())).unwrap());
    assert!(
        next > above,
        "later tokens of other processes are greater too"
    );
}

#[test]
fn a_dead_owner_is_replaced_after_a_term_and_is_told() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let mut one = process(&store, &time, "one", 1_000_000);
    let mut two = process(&store, &time, "two", 0);
    block_on(one.beat()).unwrap();
    block_on(two.beat()).unwrap();
    let first = token(block_on(one.acquire(&partition())).unwrap());
    let waits = block_on(two.acquire(&partition())).unwrap();
    assert!(
        matches!(waits, Acquire::Held { look_again_at, .. } if look_again_at == Mono(0) + TERM / 5)
    );
    time.pass(TERM);
    block_on(two.beat()).unwrap();
    let second = token(block_on(two.acquire(&partition())).unwrap());
    assert!(second > first);
    assert_eq!(
        block_on(one.beat()).unwrap(),
        Beat::DeclaredDead {
            lost: vec![partition()]
        }
    );
    assert!(one.held().is_empty());
}

#[test]
fn a_paused_owner_that_wakes_is_refused_by_the_store() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let (mut one, mut two) = (
        process(&store, &time, "one", 0),
        process(&store, &time, "two", 7),
    );
    block_on(one.beat()).unwrap();
    let old = token(block_on(one.acquire(&partition())).unwrap());
    for _ in 0..2 {
        time.pass(TERM);
        block_on(two.beat()).unwrap();
        block_on(two.acquire(&partition())).unwrap();
    }
    assert!(two.held().contains_key(&partition()));
    let late = Batch::new().expect_at(key(&partition()), Version(old.0));
    let refused = block_on(store.commit(late.put("a", "late")));
    assert!(matches!(refused, Err(CommitError::Conflict { .. })));
}

#[test]
fn s5_a_process_declared_dead_keeps_no_lease_and_acquires_nothing() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let [mut one, mut two] = two(&store, &time);
    token(block_on(one.acquire(&partition())).unwrap());
    let lease = one.lease().unwrap();
    // By its own clock, two has seen no heartbeat of one for a term; by the clock of one no time has passed.
    let mut two_later = process(&store, &time, "later", 0);
    block_on(two.acquire(&partition())).unwrap();
    block_on(two_later.beat()).unwrap();
    let dead = Batch::new().delete(one.id().heartbeat());
    block_on(store.commit(dead)).unwrap();
    assert!(
        lease.may_start(Mono(0)),
        "the lease would not have ended yet"
    );
    let told = block_on(one.beat()).unwrap();
    assert!(matches!(told, Beat::DeclaredDead { .. }), "{told:?}");
    assert_eq!(one.lease(), None);
    let other = "b".parse().unwrap();
    assert_eq!(block_on(one.acquire(&other)).unwrap(), Acquire::NoLease);
}

#[test]
fn a_process_that_leaves_is_replaced_at_once() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let [mut one, mut two] = two(&store, &time);
    token(block_on(one.acquire(&partition())).unwrap());
    block_on(one.leave()).unwrap();
    token(block_on(two.acquire(&partition())).unwrap());
}

#[test]
fn leaving_announces_partitions_whose_claim_had_no_answer() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let [mut one, mut two] = two(&store, &time);
    store.inject(Fault::UnknownApplied);
    block_on(one.acquire(&partition())).unwrap_err();
    let mut hints = store.watch(topic(&partition()));
    block_on(two.acquire(&partition())).unwrap();
    block_on(one.leave()).unwrap();
    assert_eq!(hints.next().now_or_never(), Some(Some(())));
    token(block_on(two.acquire(&partition())).unwrap());
}

#[test]
fn an_unwanted_claim_without_an_answer_is_given_back() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let [mut one, mut two] = two(&store, &time);
    store.inject(Fault::UnknownApplied);
    block_on(one.acquire(&partition())).unwrap_err();
    block_on(one.give_back(&[partition()].into())).unwrap();
    assert!(matches!(
        block_on(two.acquire(&partition())).unwrap(),
        Acquire::Held { .. }
    ));
    block_on(one.give_back(&BTreeSet::new())).unwrap();
    token(block_on(two.acquire(&partition())).unwrap());
}

#[test]
fn a_failed_release_is_repeated_by_give_back() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let [mut one, mut two] = two(&store, &time);
    token(block_on(one.acquire(&partition())).unwrap());
    store.inject(Fault::Unavailable);
    block_on(one.release(&partition())).unwrap_err();
    block_on(one.give_back(&BTreeSet::new())).unwrap();
    token(block_on(two.acquire(&partition())).unwrap());
    block_on(one.give_back(&BTreeSet::new())).unwrap();
    let owner = block_on(store.get(&[key(&partition())])).unwrap();
    assert!(owner[0].is_some(), "the other process owns it now");
}

#[test]
fn a_process_goes_on_after_the_store_forgot_its_unanswered_beat() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let mut one = process(&store, &time, "one", 0);
    block_on(one.beat()).unwrap();
    // The state after a heartbeat whose answer was lost, and whose batch id the store no longer remembers.
    let beat = Batch::new().put(ProcessId::from("one").heartbeat(), "{}");
    block_on(store.commit(beat)).unwrap();
    let lost = block_on(one.beat()).unwrap();
    assert!(matches!(lost, Beat::DeclaredDead { .. }), "{lost:?}");
    let again = block_on(one.beat()).unwrap();
    assert!(matches!(again, Beat::Renewed(_)), "{again:?}");
}

#[test]
fn without_heartbeats_takeover_is_immediate() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let mut one = process(&store, &time, "one", 0);
    block_on(one.beat()).unwrap();
    token(block_on(one.acquire(&partition())).unwrap());
    block_on(store.commit(Batch::new().delete_range(heartbeats()))).unwrap();
    let mut two = process(&store, &time, "two", 0);
    block_on(two.beat()).unwrap();
    token(block_on(two.acquire(&partition())).unwrap());
}

#[test]
fn an_acquisition_whose_answer_was_lost_is_found_again() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let mut one = process(&store, &time, "one", 0);
    block_on(one.beat()).unwrap();
    store.inject(Fault::UnknownApplied);
    assert!(block_on(one.acquire(&partition())).is_err());
    let found = token(block_on(one.acquire(&partition())).unwrap());
    let owner = block_on(store.get(&[key(&partition())])).unwrap();
    assert_eq!(owner[0].as_ref().unwrap().version, Version(found.0));
}

#[test]
fn s5_a_process_declared_dead_owns_with_a_new_token() {
    let (store, time) = (MemoryStore::new(), Time::default());
    let mut one = process(&store, &time, "one", 0);
    let mut two = process(&store, &time, "two", 0);
    let [a, b] = partitions();
    block_on(one.beat()).unwrap();
    block_on(two.beat()).unwrap();
    let before = [&a, &b].map(|partition| token(block_on(one.acquire(partition)).unwrap()));
    block_on(two.acquire(&a)).unwrap();
    time.pass(TERM);
    block_on(two.beat()).unwrap();
    token(block_on(two.acquire(&a)).unwrap());
    let lost = block_on(one.beat()).unwrap();
    assert!(matches!(lost, Beat::DeclaredDead { .. }), "{lost:?}");
    block_on(one.beat()).unwrap();
    assert!(token(block_on(one.acquire(&b)).unwrap()) > before[1]);
}

/// One action of a process; some actions name one of the two partitions.
#[derive(Debug, Clone, Copy)]
enum Action {
    Beat,
    Acquire(usize),
    Release(usize),
    /// The process ends without leaving; a new run of it starts.
    Crash,
}

/// One process and its belief about its lease and tokens, as its engines were told.
struct Actor {
    name: usize,
    runs: usize,
    offset: Duration,
    idle: Option<Process>,
    busy: Option<BoxFuture<'static, (Process, Option<Told>)>>,
    lease: Option<Lease>,
    /// Token of each partition that it owns; `None` means that it does not own the partition.
    tokens: [Option<FencingToken>; 2],
    /// Ownerships that began since the last check.
    begun: Vec<(usize, FencingToken)>,
}

#[derive(Debug)]
enum Told {
    Beat(Beat),
    Acquire(usize, Acquire),
    Released,
}

impl Actor {
    fn new(name: usize, offset: Duration) -> Self {
        Self {
            name,
            runs: 0,
            offset,
            idle: None,
            busy: None,
            lease: None,
            tokens: [None; 2],
            begun: Vec::new(),
        }
    }

    fn start(&mut self, store: &MemoryStore, time: &Time) {
        self.runs += 1;
        let id = format!("{}-{}", self.name, self.runs);
        let clock = time.clock(self.offset);
        self.idle = Some(Process::new(
            Arc::new(store.other()),
            id.into(),
            TERM,
            clock,
        ));
        (self.busy, self.lease, self.tokens) = (None, None, [None; 2]);
    }

    fn act(&mut self, action: Action, store: &MemoryStore, time: &Time) {
        if matches!(action, Action::Crash) {
            return self.start(store, time);
        }
        let Some(mut process) = self.idle.take() else {
            return;
        };
        if let Action::Release(which) = action {
            self.tokens[which] = None;
        }
        self.busy = Some(Box::pin(async move {
            let told = match action {
                Action::Beat => process.beat().await.ok().map(Told::Beat),
                Action::Acquire(which) => {
                    let acquired = process.acquire(&partitions()[which]).await.ok();
                    acquired.map(|acquired| Told::Acquire(which, acquired))
                }
                Action::Release(which) => {
                    let released = process.release(&partitions()[which]).await.ok();
                    released.map(|()| Told::Released)
                }
                Action::Crash => None,
            };
            (process, told)
        }));
    }

    /// Polls the running action once.
    fn poll(&mut self) {
        let Some(busy) = &mut self.busy else { return };
        let waker = noop_waker();
        let Poll::Ready((process, told)) = busy.as_mut().poll(&mut Context::from_waker(&waker))
        else {
            return;
        };
        (self.busy, self.idle) = (None, Some(process));
        match told {
            Some(Told::Beat(Beat::Renewed(lease))) => self.lease = Some(lease),
            Some(Told::Beat(Beat::DeclaredDead { .. })) => {
                (self.lease, self.tokens) = (None, [None; 2]);
            }
            Some(Told::Acquire(which, Acquire::Acquired { token })) => {
                if self.tokens[which].replace(token) != Some(token) {
                    self.begun.push((which, token));
                }
            }
            Some(Told::Acquire(..) | Told::Released) | None => {}
        }
    }

    /// The token with which its engines may start work in a partition now; `None` means that they may not.
    fn works(&self, which: usize, time: &Time) -> Option<FencingToken> {
        let now = time.clock(self.offset)();
        self.tokens[which].filter(|_| self.lease.is_some_and(|lease| lease.may_start(now)))
    }
}

/// A future that is pending once, so that other processes can act in between.
struct Between(bool);

impl Future for Between {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        30 => Just(Action::Beat),
        30 => (0..2usize).prop_map(Action::Acquire),
        1 => (0..2usize).prop_map(Action::Release),
        2 => Just(Action::Crash),
    ]
}

fn fault() -> impl Strategy<Value = Option<Fault>> {
    prop_oneof![
        60 => Just(None),
        1 => Just(Some(Fault::UnknownApplied)),
        1 => Just(Some(Fault::UnknownLost)),
        1 => Just(Some(Fault::Unavailable)),
        2 => (1..=5u64).prop_map(|behind| Some(Fault::Stale(behind))),
        1 => Just(Some(Fault::LeftBehind)),
    ]
}

type Step = (usize, Action, u8, u64, Option<Fault>);

fn steps() -> impl Strategy<Value = (Vec<u64>, Vec<Step>)> {
    let pause = prop_oneof![12 => 0..800u64, 1 => 5_000..20_000u64];
    let step = (0..3usize, action(), 0..12u8, pause, fault());
    let offsets = proptest::collection::vec(0..1_000_000u64, 3);
    (offsets, proptest::collection::vec(step, 100..300))
}

/// How often the situations occurred for which the rules exist.
#[derive(Debug, Default)]
struct Coverage {
    /// A process works with a new token.
    tokens: u64,
    /// Two processes believe that they own a partition; only the lease stops one of them.
    beliefs: u64,
}

/// Fails if two processes work in one partition, or if one works with a token older than an earlier one.
fn judge(
    which: usize,
    actors: &[Actor],
    time: &Time,
    greatest: &mut FencingToken,
    coverage: &mut Coverage,
) -> Result<(), TestCaseError> {
    let tokens = actors.iter().filter_map(|actor| actor.tokens[which]);
    coverage.beliefs += u64::from(tokens.count() > 1);
    let at_work = actors.iter().filter_map(|actor| actor.works(which, time));
    let at_work: Vec<_> = at_work.collect();
    prop_assert!(at_work.len() <= 1, "two at work: {at_work:?}");
    if let Some(token) = at_work.first() {
        prop_assert!(*token >= *greatest, "{token:?} after {greatest:?}");
        coverage.tokens += u64::from(*token > *greatest);
        *greatest = *token;
    }
    Ok(())
}

/// Plays `steps`. Pauses of any length fall between and within the steps: a process does nothing until it is picked
/// again.
fn play(offsets: &[u64], steps: &[Step], coverage: &mut Coverage) -> Result<(), TestCaseError> {
    let (store, time) = (MemoryStore::new(), Time::default());
    store.set_pause(|_| Box::pin(Between(false)));
    let mut actors: Vec<Actor> = (0..3)
        .map(|name| Actor::new(name, Duration::from_secs(offsets[name])))
        .collect();
    for actor in &mut actors {
        actor.start(&store, &time);
    }
    let mut greatest = [FencingToken(0); 2];
    let mut ownerships = BTreeSet::new();
    for (who, action, polls, pause, fault) in steps {
        if let Some(fault) = fault {
            store.inject(*fault);
        }
        actors[*who].act(*action, &store, &time);
        for _ in 0..=*polls {
            actors[*who].poll();
            time.pass(Duration::from_millis(*pause) / (u32::from(*polls) + 1));
        }
        for begun in actors[*who].begun.drain(..) {
            prop_assert!(ownerships.insert(begun), "{begun:?} owned before");
        }
        for (which, greatest) in greatest.iter_mut().enumerate() {
            judge(which, &actors, &time, greatest, coverage)?;
        }
    }
    Ok(())
}

#[test]
fn two_processes_never_work_at_once_and_tokens_rise() {
    let coverage = std::cell::RefCell::new(Coverage::default());
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let played = runner.run(&steps(), |(offsets, steps)| {
        play(&offsets, &steps, &mut coverage.borrow_mut())
    });
    played.unwrap();
    let coverage = coverage.into_inner();
    assert!(coverage.tokens > 1000, "{coverage:?}");
    assert!(coverage.beliefs > 100, "{coverage:?}");
}
