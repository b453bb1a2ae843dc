//! The asset plugin: it diffs and pushes over a network with faults.

mod diff;
mod push;

use std::time::Duration;

use async_trait::async_trait;
use plugin_sdk::{AssetPlugin, Diff, DiffRequest, PushRequest, Pushed, Turndown, plugin};

use crate::{
    executor::NodeId,
    faults::Fault,
    halt::{kill, stand_still, survive},
    world::{State, World},
};

/// The plugin of one process, for all asset types.
#[derive(Clone)]
pub struct Network {
    /// The world that contains production.
    pub world: World,
    /// Node of the process that uses the plugin.
    pub node: NodeId,
}

#[async_trait]
impl AssetPlugin for Network {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.compare(request).await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.change(request, false).await
    }
}

#[async_trait]
impl Turndown for Network {
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.change(request, true).await
    }
}

/// The outcome of a call: success, or one of the faults.
#[derive(Debug)]
enum Fate {
    Fine,
    Fails(plugin::Error),
    Hangs,
    Panics,
}

impl Network {
    async fn suffer(&self, fate: Fate) -> Result<(), plugin::Error> {
        match fate {
            Fate::Fine => Ok(()),
            Fate::Fails(error) => Err(error),
            Fate::Hangs => futures::future::pending().await,
            // `resume_unwind` instead of `panic!`: the panic hook would print thousands of these panics.
            Fate::Panics => std::panic::resume_unwind(Box::new("a plugin panicked")),
        }
    }

    /// Passes a numbered point at which the process may die.
    async fn pass(&self) {
        survive(&self.world, self.node).await;
    }

    /// Draws the faults that kill or pause the process during this call.
    async fn endanger(&self) {
        let (dies, stands) = {
            let mut state = self.world.state();
            (
                state.strikes(Fault::CrashAtCall),
                state.strikes(Fault::PauseAtPoint),
            )
        };
        if dies {
            kill(&self.world, self.node);
            futures::future::pending::<()>().await;
        }
        self.pass().await;
        if stands {
            stand_still(&self.world, self.node);
            self.world.sleep(Duration::ZERO).await;
        }
    }
}

impl State {
    /// Draws the time of a message to production or back; `None` if it takes no time.
    fn latency(&mut self) -> Option<Duration> {
        if self.strikes(Fault::Slow) {
            let (least, most) = (Duration::from_millis(200), Duration::from_secs(4));
            return Some(self.random.between(least, most));
        }
        let usual = self.random.per_mille(600);
        usual.then(|| {
            self.random
                .between(Duration::from_micros(200), Duration::from_millis(20))
        })
    }

    /// Draws the error of a diff or a push, or none.
    fn fate(&mut self) -> Fate {
        if self.now < self.out_until || self.strikes(Fault::Transient) {
            Fate::Fails(plugin::Error::transient("the provider does not answer"))
        } else if self.strikes(Fault::Throttled) {
            let after = Duration::from_secs(1 + self.random.below(20) as u64);
            Fate::Fails(plugin::Error::throttled("too many calls", after))
        } else if self.strikes(Fault::Permanent) {
            Fate::Fails(plugin::Error::permanent("the provider refuses the call"))
        } else if self.strikes(Fault::Panic) {
            Fate::Panics
        } else {
            Fate::Fine
        }
    }
}
