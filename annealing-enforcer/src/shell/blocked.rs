//! Calls that block their threads. A thread cannot be taken back: after the deadline of its call it is counted until the
//! call returns, and a plugin that has lost too many is not called before then.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use prodspec_model::Asset;

use crate::kernel::Event;

/// So many threads one plugin, or all checks together, may keep from others after their deadlines.
const MOST: u32 = 16;

/// Not being polled, being polled, being polled since before its deadline.
const RESTS: u8 = 0;
const POLLED: u8 = 1;
const LATE: u8 = 2;

/// How many threads the calls of each plugin block; `None`: the checks.
#[derive(Debug, Default)]
pub(crate) struct Blocked(BTreeMap<Option<u16>, Arc<AtomicU32>>);

impl Blocked {
    /// Why the plugin is not called now, if too many of its calls block already.
    pub(super) fn refuses(&self, plugin: Option<u16>) -> Option<String> {
        let late = self.0.get(&plugin)?.load(Ordering::SeqCst);
        (late >= MOST).then(|| {
            format!(
                "not called: {late} earlier calls still block their threads after their deadlines; make the plugin \
                 asynchronous or give its calls time-outs, then restart the process"
            )
        })
    }

    /// Watches one more call.
    pub(super) fn watch(&mut self, call: Named) -> Blocks {
        let late = self.0.entry(call.plugin).or_default().clone();
        let state = Arc::new(AtomicU8::new(RESTS));
        Blocks { state, late, call }
    }
}

/// What is called.
#[derive(Debug, Clone)]
pub(super) struct Named {
    /// `None`: the checks.
    pub(super) plugin: Option<u16>,
    pub(super) call: &'static str,
    pub(super) asset: Asset,
}

impl Named {
    pub(super) fn of(plugin: Option<u16>, call: &'static str, asset: &Asset) -> Self {
        let asset = asset.clone();
        Self {
            plugin,
            call,
            asset,
        }
    }
}

/// Whether one call blocks its thread. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    state: Arc<AtomicU8>,
    late: Arc<AtomicU32>,
    call: Named,
}

impl Blocks {
    /// The call's answer is no longer wanted. If its thread is in it, the thread is lost until it returns.
    pub(super) fn past_deadline(&self) {
        self.late.fetch_add(1, Ordering::SeqCst);
        let late = self
            .state
            .compare_exchange(POLLED, LATE, Ordering::SeqCst, Ordering::SeqCst);
        match late {
            Ok(_) => {
                let (call, asset) = (self.call.call, self.call.asset.id_str());
                tracing::warn!(
                    call,
                    asset,
                    "a plugin blocks its thread after the deadline of the call; the thread is lost until it returns"
                );
            }
            Err(_) => drop(self.late.fetch_sub(1, Ordering::SeqCst)),
        }
    }
}

/// A call that tells when it is being polled.
pub(super) struct Watched {
    call: BoxFuture<'static, Event>,
    blocks: Blocks,
}

impl Watched {
    pub(super) fn new(call: BoxFuture<'static, Event>, blocks: Blocks) -> Self {
        Self { call, blocks }
    }
}

impl Future for Watched {
    type Output = Event;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        self.blocks.state.store(POLLED, Ordering::SeqCst);
        let polled = self.call.as_mut().poll(context);
        if self.blocks.state.swap(RESTS, Ordering::SeqCst) == LATE {
            self.blocks.late.fetch_sub(1, Ordering::SeqCst);
        }
        polled
    }
}
