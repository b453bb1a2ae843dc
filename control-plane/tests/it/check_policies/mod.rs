//! Policies in intent that are checks, through the whole control plane.

mod approvals;
mod capacity;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use control_plane::{Error, prelude::*, runtime::Runtime};
use plugin_sdk::{
    Alert, Expression, MetricQuery, MetricReading, MetricSource, Series, SignalSource, Signals,
};

use crate::{
    rollouts::{passes, until},
    world::{LONG, Production, QUIET, Running, Text, Virtual, ann, id, plane_on},
};

/// A manifest with services of this size, and a policy that is a check.
fn manifest(size: u64, check: &str) -> String {
    format!("services: {{a: {{size: {size}}}, b: {{size: {size}}}}}\nchecks: {{{check}}}\n")
}

/// A server of metrics and alerts that counts its requests.
#[derive(Clone, Default)]
struct Server(Arc<Answers>);

#[derive(Default)]
struct Answers {
    busy: Mutex<f64>,
    firing: Mutex<Vec<Alert>>,
    requests: AtomicUsize,
}

#[async_trait]
impl MetricSource for Server {
    fn accepts(&self, expression: &Expression) -> Result<(), Problem> {
        match expression.to_string().as_str() {
            "busy" => Ok(()),
            other => Err(Problem::new(format!("there is no metric `{other}`"))),
        }
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        let (as_of, busy) = (query.windows.last, *self.0.busy.lock().unwrap());
        Ok(MetricReading {
            series: vec![Series::new(query.windows.ends().map(|end| (end, busy)))],
            as_of,
            infos: Vec::new(),
        })
    }
}

/// The alerts of a server, at the time of its clock.
#[derive(Clone)]
struct AlertsAt(Virtual, Server);

#[async_trait]
impl SignalSource for AlertsAt {
    async fn firing(&self) -> Result<Signals, BoxError> {
        self.1.0.requests.fetch_add(1, Ordering::Relaxed);
        Ok(Signals {
            firing: self.1.0.firing.lock().unwrap().clone(),
            as_of: self.0.now().wall,
        })
    }
}

struct World {
    running: Running<Virtual>,
    text: Text,
    production: Production,
    server: Server,
    clock: Virtual,
}

impl World {
    async fn start(check: &str) -> Self {
        let (clock, production) = (Virtual::current(), Production::default());
        let (text, server) = (Text::new(&manifest(1, "")), Server::default());
        let plane = plane_on(clock.clone(), &production)
            .store(MemoryStore::new())
            .source(text.clone())
            .validators(validators::standard())
            .metrics("server", server.clone())
            .signals("server", AlertsAt(clock.clone(), server.clone()));
        let running = Running::start(plane.build().unwrap());
        running.handle.settle(LONG).await.unwrap();
        text.edit(&manifest(2, check));
        Self {
            running,
            text,
            production,
            server,
            clock,
        }
    }

    /// The number of services that have this size.
    fn of_size(&self, size: u64) -> usize {
        let state = self.production.state();
        state.sizes.values().filter(|it| **it == size).count()
    }

    /// Lets time pass, and checks that nothing was pushed, for this reason.
    async fn is_held(&self, why: &str) {
        self.running
            .handle
            .wait_until_owner()
            .await
            .next_run()
            .await;
        passes(QUIET).await;
        assert_eq!(self.of_size(1), 2, "{why}");
        let shown = self.shown("a").await;
        assert!(shown.contains(why), "{shown}");
    }

    /// The reasons why an asset waits.
    async fn shown(&self, asset: &str) -> String {
        let explained = self.running.handle.explain(&id(asset)).await.unwrap();
        format!("{:?}", explained.enforced().unwrap().chain[0].waiting)
    }

    async fn all_have(&self, size: u64) {
        until(&self.running, "all are pushed", || self.of_size(size) == 2).await;
    }

    async fn refused(check: &str) -> String {
        let world = Self::start(check).await;
        let Err(Error::Refused(problems)) = world.running.handle.settle(LONG).await else {
            panic!("it was sealed: {check}");
        };
        problems.to_string()
    }
}

const FREEZE: &str = "freeze/peak: {type: FreezePolicy, of: {types: [world.v1.Service]}, \
    from: 2026-11-01, until: 2027-01-04, why: holiday traffic}";

#[tokio::test(start_paused = true)]
async fn freeze_is_an_edit_that_holds_at_once_and_so_is_its_end() {
    let world = World::start(FREEZE).await;
    world.is_held("frozen: holiday traffic").await;
    let shown = world.shown("a").await;
    assert!(shown.contains("policies/freeze/peak"), "{shown}");
    let before = world.clock.now().mono;
    world.text.edit(&manifest(2, ""));
    world.all_have(2).await;
    let waited = world.clock.now().mono.since(before);
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn exception_from_a_freeze_lets_its_assets_through_until_it_ends() {
    let world = World::start(FREEZE).await;
    world.is_held("frozen").await;
    let but = |until: &str| {
        let except = format!(
            "except: [{{assets: [a], by: ada, why: CVE-2026-1234, from: 2026-11-29T00:00:00Z, until: '{until}'}}]}}"
        );
        format!("{}, {except}", FREEZE.trim_end_matches('}'))
    };
    world.text.edit(&manifest(2, &but("2026-11-30T12:00:00Z")));
    until(&world.running, "only one is let through", || {
        world.of_size(2) == 1
    })
    .await;
    passes(LONG).await;
    assert_eq!(world.production.size("b"), Some(1));
    // After twelve hours it has ended.
    passes(Duration::from_secs(13 * 3600)).await;
    world.text.edit(&manifest(3, &but("2026-11-30T12:00:00Z")));
    passes(LONG).await;
    assert_eq!(world.of_size(3), 0);
    // Another one, which begins an hour later: then its asset goes through, with no further edit.
    let from = world.clock.now().wall + Duration::from_secs(3600);
    let until = from + Duration::from_secs(3600);
    let except = format!(
        "{}, except: [{{assets: [b], by: ada, why: CVE-2026-1235, from: '{from}', until: '{until}'}}]}}",
        FREEZE.trim_end_matches('}')
    );
    world.text.edit(&manifest(3, &except));
    passes(Duration::from_secs(3500)).await;
    assert_eq!(world.of_size(3), 0);
    passes(Duration::from_secs(200)).await;
    assert_eq!(world.production.size("b"), Some(3));
    let refused = World::refused(&but("2026-12-30T00:00:00Z")).await;
    let why = "payload.except[0].until: needs an end within 7 days";
    assert!(refused.contains(why), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired_in_a_freeze_and_an_override_names_the_policy() {
    let world = World::start(FREEZE).await;
    world.is_held("frozen").await;
    let handle = &world.running.handle;
    let explained = handle.explain(&id("a")).await.unwrap();
    let change = explained.enforced().unwrap().chain[0]
        .change
        .clone()
        .unwrap();
    let a = id("a");
    let lift = |check: &'static str| handle.override_check(&a, change.digest, check, ann(), None);
    let refused = lift("policy/freeze/peak").await.unwrap_err().to_string();
    assert!(refused.contains("the checks are"), "{refused}");
    lift("policies/freeze/peak").await.unwrap();
    until(&world.running, "it is pushed", || world.of_size(2) == 1).await;
    world.production.state().sizes.insert(id("b"), 7);
    until(&world.running, "the drift is repaired", || {
        world.production.size("b") == Some(1)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn calendar_in_intent_opens_at_its_time() {
    let weekdays = "calendar/weekdays: {type: CalendarPolicy, of: {}, zone: UTC, open: ['Mon-Fri 09:00-17:00']}";
    let world = World::start(weekdays).await;
    world.is_held("opens 2026-11-30T09:00").await;
    let opens: Timestamp = "2026-11-30T09:00:00Z".parse().unwrap();
    let left = opens.duration_since(world.clock.now().wall).unsigned_abs();
    passes(left - QUIET).await;
    assert_eq!(world.of_size(2), 0);
    passes(QUIET * 2).await;
    assert_eq!(world.of_size(2), 2);
}

#[tokio::test(start_paused = true)]
async fn limits_in_intent_are_counted() {
    let slow = "rate/all: {type: RatePolicy, of: {}, burst: 1, every: 10m}";
    let world = World::start(slow).await;
    until(&world.running, "one is pushed", || world.of_size(2) == 1).await;
    passes(LONG * 5).await;
    assert_eq!(world.of_size(2), 1);
    world.all_have(2).await;
    let half =
        "blast/all: {type: BlastRadiusPolicy, of: {types: [world.v1.Service]}, at_most: 50%}";
    world.production.state().hangs = true;
    let before = world.production.pushes();
    world.text.edit(&manifest(3, half));
    until(&world.running, "one is on its way", || {
        world.production.pushes() > before
    })
    .await;
    passes(LONG).await;
    assert_eq!(world.production.pushes(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn r108_overload_and_alerts_in_intent_hold_their_assets() {
    let both = "overload/all: {type: OverloadPolicy, of: {}, expression: busy, at_most: 80%}, \
        alerts/a: {type: AlertPolicy, of: {}, scope: {service: id}}";
    let world = World::start("").await;
    world.all_have(2).await;
    *world.server.0.busy.lock().unwrap() = 0.9;
    world.text.edit(&manifest(3, both));
    passes(LONG).await;
    assert_eq!(world.of_size(3), 0);
    let shown = world.shown("a").await;
    assert!(shown.contains("`busy` is 0.9, and at most 0.8"), "{shown}");
    *world.server.0.busy.lock().unwrap() = 0.7;
    *world.server.0.firing.lock().unwrap() = vec![Alert::named("Slow").label("service", "b")];
    until(&world.running, "one is pushed", || world.of_size(3) == 1).await;
    passes(LONG).await;
    assert_eq!(world.production.size("b"), Some(2));
    world.server.0.firing.lock().unwrap().clear();
    world.all_have(3).await;
}

/// R108: requests follow sources and expressions, never policies or assets.
#[tokio::test(start_paused = true)]
async fn r108_alert_policies_share_one_reading() {
    let scope = |n| format!("alerts/{n}: {{type: AlertPolicy, of: {{}}, scope: {{service: id}}}}");
    let all: Vec<String> = (0..20).map(scope).collect();
    let world = World::start("").await;
    world.all_have(2).await;
    *world.server.0.firing.lock().unwrap() = vec![Alert::named("Slow")];
    world.text.edit(&manifest(3, &all.join(", ")));
    passes(LONG).await;
    let before = world.server.0.requests.load(Ordering::Relaxed);
    passes(Duration::from_secs(600)).await;
    let requests = world.server.0.requests.load(Ordering::Relaxed) - before;
    assert_eq!(world.of_size(3), 0);
    assert!((1..=130).contains(&requests), "{requests} in 10 minutes");
}

#[tokio::test(start_paused = true)]
async fn policy_that_could_not_check_is_refused_with_its_field() {
    let wrong = [
        (
            "{type: CalendarPolicy, of: {}, zone: Mars, open: []}",
            "payload.zone: there is no time zone",
        ),
        (
            "{type: CalendarPolicy, of: {}, zone: UTC, open: [never]}",
            "payload.open: `never` is not a weekly window",
        ),
        (
            "{type: FreezePolicy, of: {}, from: 2027-01-01, until: 2026-01-01, why: peak}",
            "payload.until: the freeze",
        ),
        (
            "{type: FreezePolicy, of: {}, from: soon, until: 2026-01-01, why: peak}",
            "payload.from: `soon` is no date",
        ),
        (
            "{type: RatePolicy, of: {}, burst: 0, every: 60s}",
            "payload.burst: must be at least 1",
        ),
        (
            "{type: BlastRadiusPolicy, of: {}, at_most: 0.5}",
            "payload.at_most: must be a whole number",
        ),
        (
            "{type: BlastRadiusPolicy, of: {}, at_most: 1, per: where}",
            "payload.per: `where` is no field",
        ),
        (
            "{type: OverloadPolicy, of: {}, expression: bsy, at_most: 1}",
            "payload.expression: there is no metric `bsy`",
        ),
        (
            "{type: OverloadPolicy, of: {}, expression: busy, at_most: 1, window: 5m}",
            "payload.window: must be",
        ),
        (
            "{type: AlertPolicy, of: {}, source: pager}",
            "payload.source: no source of alerts is named `pager`; there are: server",
        ),
        (
            "{type: ApprovalPolicy, of: {}, people: 0}",
            "payload.people: must be at least 1",
        ),
    ];
    are_refused(&wrong).await;
}

/// Checks that these policies are refused, each for its reason.
async fn are_refused(wrong: &[(&str, &str)]) {
    for (policy, why) in wrong {
        let refused = World::refused(&format!("policy/x: {policy}")).await;
        assert!(refused.contains(why), "{policy}: {refused}");
    }
}
