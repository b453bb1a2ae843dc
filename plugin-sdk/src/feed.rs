//! The feed of an ownership: what enforcement tells an engine that is attached beside it, in one order.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use prodspec_model::{AssetId, Incarnation};

use crate::{Cause, Delay, FencingToken, Mono, Observation, Standing, observe};

/// Tells engines that are attached beside an ownership of a partition what they need to act under it. The enforcer's handle
/// implements it.
///
/// ```
/// use futures::StreamExt;
/// use plugin_sdk::{Enforcement, FeedItem, Follow, Mono};
/// use prodspec_model::AssetId;
///
/// /// Acts on an asset once it is in sync, and only under a fresh lease.
/// async fn act(enforcement: &dyn Enforcement, asset: AssetId, now: impl Fn() -> Mono) -> bool {
///     let mut feed = enforcement.feed();
///     feed.follow(Follow::Assets(vec![asset]));
///     let mut lease = Mono(0);
///     while let Some(item) = feed.next().await {
///         match item {
///             FeedItem::Lease(until) => lease = until,
///             FeedItem::Standings(all) if all.iter().all(|(_, it)| it.is_in_sync()) => return now() < lease,
///             _ => {}
///         }
///     }
///     false // the ownership has ended
/// }
/// ```
pub trait Enforcement: Send + Sync + 'static {
    /// Begins a feed. Its first items are the lease and the newest incarnation; all later changes follow, in the order in
    /// which enforcement takes them in. It ends with the ownership, or at once if this process does not own the partition.
    fn feed(&self) -> Feed;

    /// Compares an asset with production at its own pin, and returns what was found. Questions about one asset at the same
    /// time share one comparison, also with checks. An engine that cannot be asked answers so.
    fn observe(&self, asset: &AssetId) -> BoxFuture<'static, Result<Observation, observe::Error>> {
        let why = format!("{asset} cannot be looked at here");
        futures::future::ready(Err(observe::Error::failed(why))).boxed()
    }

    /// Asks the checks about pushes of `assets` to their contents at `at`, for `cause`, before they get these contents. Each
    /// asset is compared with production first. Nothing is pushed or claimed, and only admission counts: a delay that is
    /// gone when the push is due delays nothing.
    ///
    /// Returns the delays of each asset that would wait. It includes assets that earlier questions about the same contents for
    /// `cause` have found, as long as their delays are not due to be looked at again; they are not compared and checked anew. An
    /// asset that cannot be compared is not delayed. By default nothing is.
    fn would_wait(
        &self,
        at: &Incarnation,
        assets: Vec<AssetId>,
        cause: Cause,
    ) -> BoxFuture<'static, Vec<(AssetId, Vec<Delay>)>> {
        let _ = (at, assets, cause);
        futures::future::ready(Vec::new()).boxed()
    }

    /// A callee has refused a call because it has seen the token `seen`, which is not smaller than that of this ownership:
    /// the store was lost or restored. Enforcement acquires the partition again above that token. The default does nothing.
    fn fenced(&self, seen: FencingToken) {
        let _ = seen;
    }
}

/// A change that enforcement tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FeedItem {
    /// Until then this process may start calls as the owner: two thirds of a term after its last heartbeat. Each renewal
    /// is told. Without one the ownership may be another process's from then on, so nothing may be started.
    Lease(Mono),
    /// Enforcement has taken in this newest incarnation.
    Took(Incarnation),
    /// The ownership ends in order. Nothing may begin from now on; calls in flight may end until then. An engine that is
    /// waited for ends by itself.
    Drains(Mono),
    /// The present standings of followed assets. One that is followed by its id and that an incarnation changes is reported
    /// after [`FeedItem::Took`].
    Standings(Vec<(AssetId, Standing)>),
}

/// The assets that a feed follows from now on. Standings that are under way may arrive after [`Follow::Not`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Follow {
    /// These assets, whether they exist or not: the feed reports the present standing of each at once, and then each time
    /// that it changes. For an asset that is followed already, it reports the present standing again.
    Assets(Vec<AssetId>),
    /// All assets with a pin of their own that a plugin enforces, or has enforced. The feed reports all of them at once, in
    /// one item that may be empty; then each whose pin moves, in the order of the journal and before the incarnation that
    /// caused it, and each whose content or state at its pin changes. An asset that has lost its pin is reported once more,
    /// with [`Pin::Default`](crate::Pin).
    Pinned,
    /// These assets not any more, however often they were followed.
    Not(Vec<AssetId>),
}

/// One feed: a stream of [`FeedItem`]s about the assets that it follows.
pub struct Feed {
    items: BoxStream<'static, FeedItem>,
    follow: Box<dyn Fn(Follow) + Send + Sync>,
}

impl Feed {
    /// Makes a feed of `items`. `follow` takes each call of [`Feed::follow`].
    pub fn new(
        items: impl Stream<Item = FeedItem> + Send + 'static,
        follow: impl Fn(Follow) + Send + Sync + 'static,
    ) -> Self {
        Self {
            items: items.boxed(),
            follow: Box::new(follow),
        }
    }

    /// Changes the assets that the feed follows: none at first.
    pub fn follow(&self, what: Follow) {
        (self.follow)(what);
    }
}

impl Stream for Feed {
    type Item = FeedItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        self.items.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}
