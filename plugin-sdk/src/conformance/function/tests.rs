//! Functions that keep the laws pass, and each broken law is reported.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use prodspec_model::operation::Power;

use super::*;
use crate::{
    FieldEdit, FieldPath,
    operation::{FromFn, PauseAsset, Start, from_fn},
    testing::{self, InMemoryEffects},
};

fn sleeping(suite: FunctionSuite) -> FunctionSuite {
    suite.waiting(|time| {
        Box::pin(async move {
            let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
        })
    })
}

/// The law that `function` breaks, for one request. The suite counts its effects with `ledger`.
async fn broken(function: impl OperationFunction, suite: FunctionSuite) -> &'static str {
    let suite = sleeping(suite);
    let ran = suite.run(&function, [testing::function_request()]).await;
    ran.unwrap_err().law()
}

fn safe(name: &str) -> FunctionInfo {
    FunctionInfo::new(name).repeat(Repeat::Safe)
}

/// A safe function that always gives this answer, with certain powers.
fn answers(powers: impl IntoIterator<Item = Power>, answer: Answer) -> impl OperationFunction {
    let info = powers.into_iter().fold(safe("answers"), FunctionInfo::may);
    from_fn(info, move |_| {
        let ran = answer.clone().done();
        async move { Ok(ran) }
    })
}

#[tokio::test(start_paused = true)]
async fn r25_keyed_and_guarded_function_keeps_the_laws() {
    let press = InMemoryEffects::new("press");
    let journal = press.clone();
    let suite = sleeping(FunctionSuite::new().ledger(move |key| journal.effects(key)));
    let requests = ["print", "bind"].map(|step| {
        let mut request = testing::function_request();
        request.key.step = step.into();
        request
    });
    suite.run(&press, requests).await.unwrap();
    assert_eq!(press.keys().len(), 6);
}

/// A keyed function that makes an effect at each call, unless `skips` says that the request has been seen.
fn counts(
    info: FunctionInfo,
    skips: impl Fn(&EffectKey, &[EffectKey]) -> bool + Send + Sync + 'static,
) -> (impl OperationFunction, FunctionSuite) {
    let made: Arc<Mutex<Vec<EffectKey>>> = Arc::default();
    let journal = Arc::clone(&made);
    let ledger = move |key: &EffectKey| {
        let made = journal.lock().unwrap();
        made.iter().filter(|it| *it == key).count() as u64
    };
    let function = from_fn(info, move |request: FunctionRequest| {
        let mut made = made.lock().unwrap();
        if !skips(&request.key, &made) {
            made.push(request.key);
        }
        async { Ok(Answer::new().done()) }
    });
    (function, FunctionSuite::new().ledger(ledger))
}

#[tokio::test(start_paused = true)]
async fn r25_keyed_function_with_two_effects_or_none_for_a_new_run_is_reported() {
    let keyed = || FunctionInfo::new("keyed").repeat(Repeat::Keyed);
    let (function, suite) = counts(keyed(), |_, _| false);
    let law = "a keyed function that is called twice with one key has one effect";
    assert_eq!(broken(function, suite).await, law);
    let same_step = |key: &EffectKey, made: &[EffectKey]| made.iter().any(|it| it.step == key.step);
    let (function, suite) = counts(keyed(), same_step);
    let law = "another run is another key, with an effect of its own";
    assert_eq!(broken(function, suite).await, law);
    let (function, _) = counts(keyed(), |_, _| true);
    let law = "the effects of a keyed function can be counted; give the suite a ledger";
    assert_eq!(broken(function, FunctionSuite::new()).await, law);
}

#[tokio::test(start_paused = true)]
async fn r25_guarded_function_that_takes_an_older_fence_is_reported() {
    let guarded = FunctionInfo::new("guarded").guard(Guard::Guarded);
    let (function, suite) = counts(guarded, |_, _| false);
    let law = "a guarded function refuses an older fence as fenced, without an effect";
    assert_eq!(broken(function, suite).await, law);
}

#[tokio::test(start_paused = true)]
async fn r25_safe_function_that_answers_differently_is_reported() {
    let calls = AtomicU64::new(0);
    let function = from_fn(safe("counter"), move |_| {
        let n = calls.fetch_add(1, Ordering::Relaxed);
        async move { Ok(Answer::new().output(&n)?.done()) }
    });
    assert_eq!(
        broken(function, FunctionSuite::new()).await,
        "a safe function answers equal requests equally"
    );
}

#[tokio::test(start_paused = true)]
async fn r34_answer_outside_the_powers_is_reported() {
    let law = "an answer contains nothing outside the powers";
    let edit = |field: &str| {
        let path = FieldPath::keys(["apps", "shop", field]);
        Answer::new().edit("apps.yaml", FieldEdit::add("apps.yaml#0", path, 1))
    };
    let powers = || {
        [
            Power::edit("apps.yaml", "apps.*.cluster"),
            Power::start("a"),
        ]
    };
    let pause = PauseAsset::new(testing::asset("job/eu").id(), "it fails");
    for answer in [
        edit("owner"),
        Answer::new().pause(pause),
        Answer::new().start(Start::of("b")),
    ] {
        let function = answers(powers(), answer);
        assert_eq!(broken(function, FunctionSuite::new()).await, law);
    }
    let allowed = edit("cluster").start(Start::of("a"));
    let suite = sleeping(FunctionSuite::new());
    let requests = [testing::function_request()];
    suite
        .run(&answers(powers(), allowed), requests)
        .await
        .unwrap();
    let unreadable = answers([Power::edit("apps.yaml", "apps..x")], Answer::new());
    let law = "the declared powers can be read";
    assert_eq!(broken(unreadable, FunctionSuite::new()).await, law);
}

#[tokio::test(start_paused = true)]
async fn r41_answer_over_a_limit_is_reported() {
    let large = Answer::new().output(&"x".repeat(70_000)).unwrap();
    let law = "an answer keeps its limits";
    assert_eq!(broken(answers([], large), FunctionSuite::new()).await, law);
}

/// A safe function that hangs, or answers that it is in progress, once it is cancelled.
fn goes_on(hangs: bool) -> impl OperationFunction {
    from_fn(
        safe("goes-on"),
        move |request: FunctionRequest| async move {
            match request.cancelled {
                false => Ok(Answer::new().done()),
                true if hangs => std::future::pending().await,
                true => Ok(Ran::in_progress(Duration::from_secs(50))),
            }
        },
    )
}

#[tokio::test(start_paused = true)]
async fn r30_cancelled_call_that_does_not_end_within_its_deadline_is_reported() {
    for hangs in [true, false] {
        assert_eq!(broken(goes_on(hangs), FunctionSuite::new()).await, LATE);
    }
    let (without_time, works) = (FunctionSuite::new(), goes_on(false));
    let ran = without_time.run(&works, [testing::function_request()]);
    assert_eq!(ran.await.unwrap_err().law(), LATE);
}

fn asks(more: bool) -> FromFn<impl Fn(FunctionRequest) -> BoxFuture<'static, Answered>> {
    from_fn(safe("asks"), move |request: FunctionRequest| {
        let asked = request.required.len();
        let found = request.required("0").map(<[Required]>::len);
        let name = asked.min(if more { 9 } else { 1 }).to_string();
        Box::pin(async move {
            if asked == 2 && !more {
                return Ok(Answer::new().output(&found)?.done());
            }
            Ok(Ran::needs(name, Requirement::default()))
        }) as BoxFuture<'static, Answered>
    })
}

type Answered = std::result::Result<Ran, plugin::Error>;

#[tokio::test(start_paused = true)]
async fn r33_function_gets_what_it_asks_for_and_one_that_asks_for_ever_is_reported() {
    let reader = testing::reader([testing::asset("job/eu")]);
    let request = testing::function_request().reader(reader);
    let suite = sleeping(FunctionSuite::new());
    suite.run(&asks(false), [request]).await.unwrap();
    let law = "a function asks for something new, five times at most";
    assert_eq!(broken(asks(true), FunctionSuite::new()).await, law);
    let same = from_fn(safe("same"), |_| async {
        Ok(Ran::needs("a", Requirement::default()))
    });
    assert_eq!(broken(same, FunctionSuite::new()).await, law);
}
