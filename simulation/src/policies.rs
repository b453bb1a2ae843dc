//! The stack of rollout policies: the real one, behind a layer in which a selection is slow, hangs, fails or panics.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use annealing_strategist::policy;
use futures::future::BoxFuture;
use plugin_sdk::{BoxError, SelectRequest, Selection, service::StackService};
#[cfg(feature = "planted-bugs")]
use prodspec_model::rollout::FirstTurnup;
use tower::Service;

#[cfg(feature = "planted-bugs")]
use crate::scenario::Careless;
use crate::{
    faults::Fault,
    world::{State, World},
};

/// Calls `inner` unless a fault strikes.
#[derive(Clone)]
struct Road<S> {
    world: World,
    inner: S,
}

/// The fault, or none, that strikes a selection.
enum Fate {
    Arrives(Option<Duration>),
    Hangs,
    Fails,
    Panics,
}

/// Makes the stack of rollout policies of one process.
pub fn policies(world: &World) -> impl StackService<SelectRequest, Selection> {
    Road {
        world: world.clone(),
        inner: policy::standard(),
    }
}

impl<S> Service<SelectRequest> for Road<S>
where
    S: StackService<SelectRequest, Selection>,
{
    type Response = Selection;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Selection, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[allow(unused_mut, reason = "only planted bugs change it")]
    fn call(&mut self, mut request: SelectRequest) -> Self::Future {
        #[cfg(feature = "planted-bugs")]
        if let Some(careless) = self.world.state().scenario.careless {
            careless.mislead(&mut request);
        }
        let world = self.world.clone();
        // The ready service answers this call; its clone serves the next call.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let fate = world.state().fate_of_question();
            match fate {
                Fate::Arrives(Some(late)) => world.sleep(late).await,
                Fate::Arrives(None) => {}
                Fate::Hangs => futures::future::pending().await,
                Fate::Fails => return Err("the policies cannot be read".into()),
                // `resume_unwind` instead of `panic!`: the panic hook would print thousands of these panics.
                Fate::Panics => std::panic::resume_unwind(Box::new("a policy panicked")),
            }
            inner.call(request).await.map_err(Into::into)
        })
    }
}

impl State {
    fn fate_of_question(&mut self) -> Fate {
        if self.strikes(Fault::SelectHangs) {
            return Fate::Hangs;
        }
        if self.strikes(Fault::SelectFails) {
            return Fate::Fails;
        }
        if self.strikes(Fault::SelectPanics) {
            return Fate::Panics;
        }
        let slow = self.strikes(Fault::SelectSlow);
        let most = Duration::from_secs(8);
        Fate::Arrives(slow.then(|| self.random.between(Duration::from_millis(100), most)))
    }
}

#[cfg(feature = "planted-bugs")]
impl Careless {
    fn mislead(self, request: &mut SelectRequest) {
        let mut policy = (*request.policy).clone();
        match self {
            Self::Hold => policy.hold = None,
            Self::Waves => policy.waves.clear(),
            Self::FirstTurnup => policy.first_turnup = FirstTurnup::AtOnce,
            Self::Canary => policy.canary = None,
            Self::Domains => policy.domains.clear(),
            Self::InFlight => policy.max_in_flight = None,
            Self::Unavailable => policy.max_unavailable = None,
            Self::Bakes => {
                policy.bake_secs = 0;
                policy.waves.iter_mut().for_each(|wave| wave.bake_secs = 0);
                let canary = policy.canary.iter_mut();
                canary.for_each(|canary| canary.bake_secs = 0);
            }
        }
        request.policy = policy.into();
    }
}
