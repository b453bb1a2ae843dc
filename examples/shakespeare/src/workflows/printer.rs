//! The press as functions use it: prints and withdrawals, under the key and the fence of the call.

use std::{path::PathBuf, time::Duration};

use control_plane::{
    ControlPlaneBuilder,
    prelude::{Timestamp, plugin},
    sdk::{FencingToken, Guard, with_causes},
    workflow::{Answer, FunctionInfo, FunctionRequest, Ran, Repeat, from_fn},
};
use testbed::production::press::{
    api::{Fence, Order},
    client::{Error, Press},
};

/// Time after which a call counts as one without an answer. The press answers sooner, or not at all.
const DEADLINE: Duration = Duration::from_secs(5);

/// Time between two looks whether a performance is over.
const LOOK: Duration = Duration::from_secs(1);

/// The press of a state directory, and the program that is started as the press.
#[derive(Debug, Clone)]
pub(crate) struct Printer {
    program: PathBuf,
    dir: PathBuf,
}

/// Registers the functions that use the press, `print`, `withdraw` and `notice`, and `perform`.
///
/// The press makes the effect of a key once, and refuses older fences. So a call whose answer is lost is made again at
/// once, with the same key.
pub(super) fn add(builder: ControlPlaneBuilder, press: &Printer) -> ControlPlaneBuilder {
    let info = |name: &str| {
        FunctionInfo::new(name)
            .repeat(Repeat::Keyed)
            .guard(Guard::Guarded)
            .deadline(DEADLINE)
    };
    let (printer, withdrawer, teller) = (press.clone(), press.clone(), press.clone());
    let print = move |request| {
        let press = printer.clone();
        async move { press.print(&request).await }
    };
    let withdraw = move |request| {
        let press = withdrawer.clone();
        async move { press.withdraw(&request).await }
    };
    let notice = move |request| {
        let press = teller.clone();
        async move { press.notice(&request).await }
    };
    let performs = FunctionInfo::new("perform").repeat(Repeat::Safe);
    builder
        .function(from_fn(info("print"), print))
        .function(from_fn(info("withdraw"), withdraw))
        .function(from_fn(info("notice"), notice))
        .function(from_fn(performs, perform))
}

/// Performs what was printed before: it is over after so many seconds, or soon after it is cancelled.
async fn perform(request: FunctionRequest) -> Result<Ran, plugin::Error> {
    let printed: Timestamp = request.context_entry("printed")?;
    let secs: u64 = request.input("secs")?;
    let played = Duration::try_from(request.now.duration_since(printed)).unwrap_or_default();
    let left = Duration::from_secs(secs).saturating_sub(played);
    Ok(match left.is_zero() || request.cancelled {
        true => Answer::new().done(),
        false => Ran::in_progress(left.min(LOOK)),
    })
}

impl Printer {
    /// Creates a handle to the press in `dir`. If it is not running, it is started as a process of `program`.
    pub(crate) fn new(program: PathBuf, dir: PathBuf) -> Self {
        Self { program, dir }
    }

    /// Prints what the step is named after, for the works of the input.
    async fn print(&self, request: &FunctionRequest) -> Result<Ran, plugin::Error> {
        let works: Option<Vec<String>> = request.input("works")?;
        let text = format!(
            "{}: {}",
            request.step(),
            works.unwrap_or_default().join(", ")
        );
        self.order(request, Order::Print { text }).await?;
        let answer = Answer::new().context("printed", &request.now)?;
        Ok(answer.note("printed").done())
    }

    /// Destroys all that another step of the execution has printed.
    async fn withdraw(&self, request: &FunctionRequest) -> Result<Ran, plugin::Error> {
        let step: String = request.input("step")?;
        let of = format!("{}/{step}/", request.execution());
        self.order(request, Order::Withdraw { of }).await?;
        Ok(Answer::new().note("destroyed").done())
    }

    /// Prints the assets that a watch runs for.
    async fn notice(&self, request: &FunctionRequest) -> Result<Ran, plugin::Error> {
        let changed = request.required("changed").unwrap_or_default();
        let ids: Vec<String> = changed.iter().map(|it| it.asset.id().to_string()).collect();
        let text = format!("{}: {}", request.step(), ids.join(", "));
        self.order(request, Order::Print { text }).await?;
        Ok(Answer::new().note("printed").done())
    }

    async fn order(&self, request: &FunctionRequest, order: Order) -> Result<(), plugin::Error> {
        let press = Press::ensure(&self.program, &self.dir).await;
        let fence = Fence {
            token: request.fence.token.0,
            attempt: request.fence.attempt,
        };
        let key = request.key.to_string();
        let ordered = press.map_err(failed)?.order(&key, fence, &order).await;
        ordered.map_err(failed)
    }
}

/// Translates the error of a call. Without an answer, its outcome is unknown.
fn failed(error: Error) -> plugin::Error {
    match &error {
        Error::NoAnswer(_) => plugin::Error::unknown(with_causes(&error)),
        Error::Fenced { message, seen } => plugin::Error::fenced_by(message, FencingToken(*seen)),
        _ => plugin::Error::transient(with_causes(&error)),
    }
}
