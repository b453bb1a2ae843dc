//! The feed of an ownership: what enforcement tells an engine that is attached beside it, in one order.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use prodspec_model::{AssetId, Incarnation};

use crate::{FencingToken, Mono, Observation, Standing, observe};

/// Tells engines that are attached beside an ownership of a partition what they need to act under it. The enforcer's handle
/// implements it.
///
/// ```
/// use futures::StreamExt;
/// use plugin_sdk::{Enforcement, FeedItem, Mono};
/// use prodspec_model::AssetId;
///
/// /// Acts on an asset once it is in sync, and only under a fresh lease.
/// async fn act(enforcement: &dyn Enforcement, asset: AssetId, now: impl Fn() -> Mono) -> bool {
///     let mut feed = enforcement.feed();
///     feed.follow([asset]);
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
    /// The present standings of followed assets. An asset that an incarnation changes is told after [`FeedItem::Took`].
    Standings(Vec<(AssetId, Standing)>),
}

/// One feed: a stream of [`FeedItem`]s, and the set of assets whose standings it tells.
pub struct Feed {
    items: BoxStream<'static, FeedItem>,
    follow: Box<dyn Fn(Vec<AssetId>, bool) + Send + Sync>,
}

impl Feed {
    /// Makes a feed of `items`. `follow` gets the assets that are followed (`true`) or not any more (`false`).
    pub fn new(
        items: impl Stream<Item = FeedItem> + Send + 'static,
        follow: impl Fn(Vec<AssetId>, bool) + Send + Sync + 'static,
    ) -> Self {
        Self {
            items: items.boxed(),
            follow: Box::new(follow),
        }
    }

    /// Follows assets from now on, whether they exist or not: the feed tells the present standing of each at once, and then
    /// each time that it changes. For an asset that is followed already, it tells the present standing again.
    pub fn follow(&self, assets: impl IntoIterator<Item = AssetId>) {
        (self.follow)(assets.into_iter().collect(), true);
    }

    /// Stops following assets, however often they were followed. Standings that are under way may still arrive.
    pub fn unfollow(&self, assets: impl IntoIterator<Item = AssetId>) {
        (self.follow)(assets.into_iter().collect(), false);
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
