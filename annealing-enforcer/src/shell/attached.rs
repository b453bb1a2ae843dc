//! The feeds of engines that are attached beside one ownership: the lease, the newest incarnation, and the standings of
//! the assets that each engine follows. A change of an asset costs what its own followers cost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::channel::mpsc::UnboundedSender;
use plugin_sdk::{FeedItem, Mono, PinEvent, Standing};
use prodspec_model::AssetId;

use super::input::FeedNo;
use crate::kernel::Kernel;

/// Gives each feed of an enforcer its number. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct FeedNumbers(Arc<AtomicU64>);

impl FeedNumbers {
    pub(super) fn next(&self) -> FeedNo {
        FeedNo(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The feeds of one ownership.
#[derive(Debug, Default)]
pub(super) struct Attached {
    lease: Mono,
    feeds: BTreeMap<FeedNo, Reader>,
    /// The feeds that follow each followed asset. The kernel follows each of these assets once.
    followers: BTreeMap<AssetId, BTreeSet<FeedNo>>,
}

/// The reader of one feed, and the assets that it follows.
#[derive(Debug)]
struct Reader {
    items: UnboundedSender<FeedItem>,
    assets: BTreeSet<AssetId>,
}

impl Attached {
    /// Begins a feed with the lease and the newest incarnation.
    pub(super) fn begin(
        &mut self,
        kernel: &mut Kernel,
        no: FeedNo,
        items: UnboundedSender<FeedItem>,
    ) {
        let assets = BTreeSet::new();
        self.feeds.insert(no, Reader { items, assets });
        for item in [
            FeedItem::Lease(self.lease),
            FeedItem::Took(kernel.latest().clone()),
        ] {
            self.send(kernel, no, item);
        }
    }

    /// Tells the readers that the lease was renewed.
    pub(super) fn renewed(&mut self, kernel: &mut Kernel, until: Mono) {
        self.lease = until;
        self.send_all(kernel, &FeedItem::Lease(until));
    }

    /// Tells the readers that the ownership ends in order.
    pub(super) fn drains(&mut self, kernel: &mut Kernel, until: Mono) {
        self.send_all(kernel, &FeedItem::Drains(until));
    }

    /// Tells the readers what one step of the kernel changed.
    pub(super) fn tell(
        &mut self,
        kernel: &mut Kernel,
        events: &[PinEvent],
        standings: &mut Vec<(AssetId, Standing)>,
    ) {
        for event in events {
            if let PinEvent::Took(newest) = event {
                self.send_all(kernel, &FeedItem::Took(newest.clone()));
            }
        }
        let mut by_feed: BTreeMap<FeedNo, Vec<_>> = BTreeMap::new();
        for (asset, standing) in standings.drain(..) {
            for no in self.followers.get(&asset).into_iter().flatten() {
                let told = (asset.clone(), standing.clone());
                by_feed.entry(*no).or_default().push(told);
            }
        }
        for (no, told) in by_feed {
            self.send(kernel, no, FeedItem::Standings(told));
        }
    }

    /// Lets a feed follow assets, and tells their present standings.
    pub(super) fn follow(&mut self, kernel: &mut Kernel, no: FeedNo, assets: Vec<AssetId>) {
        let Some(reader) = self.feeds.get_mut(&no) else {
            return;
        };
        let mut told = Vec::with_capacity(assets.len());
        for asset in assets {
            let followers = self.followers.entry(asset.clone()).or_default();
            let standing = kernel.follow(&asset);
            if !followers.is_empty() {
                kernel.unfollow(&asset);
            }
            followers.insert(no);
            reader.assets.insert(asset.clone());
            told.push((asset, standing));
        }
        self.send(kernel, no, FeedItem::Standings(told));
    }

    /// Ends the following of assets by one feed.
    pub(super) fn unfollow(&mut self, kernel: &mut Kernel, no: FeedNo, assets: Vec<AssetId>) {
        let Some(reader) = self.feeds.get_mut(&no) else {
            return;
        };
        for asset in assets {
            if reader.assets.remove(&asset) {
                leave(&mut self.followers, kernel, no, &asset);
            }
        }
    }

    fn send_all(&mut self, kernel: &mut Kernel, item: &FeedItem) {
        let all: Vec<FeedNo> = self.feeds.keys().copied().collect();
        for no in all {
            self.send(kernel, no, item.clone());
        }
    }

    /// Sends an item to a reader. One that has gone is removed.
    fn send(&mut self, kernel: &mut Kernel, no: FeedNo, item: FeedItem) {
        let reader = self.feeds.get(&no);
        if reader.is_none_or(|reader| reader.items.unbounded_send(item).is_ok()) {
            return;
        }
        if let Some(gone) = self.feeds.remove(&no) {
            for asset in &gone.assets {
                leave(&mut self.followers, kernel, no, asset);
            }
        }
    }
}

/// Removes a follower of an asset. The kernel follows the asset until its last follower leaves.
fn leave(
    followers: &mut BTreeMap<AssetId, BTreeSet<FeedNo>>,
    kernel: &mut Kernel,
    no: FeedNo,
    asset: &AssetId,
) {
    let Some(of_asset) = followers.get_mut(asset) else {
        return;
    };
    of_asset.remove(&no);
    if of_asset.is_empty() {
        followers.remove(asset);
        kernel.unfollow(asset);
    }
}
