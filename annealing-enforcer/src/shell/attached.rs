//! The feeds of engines that are attached beside one ownership: the lease, the newest incarnation, and the standings of
//! the assets that each engine follows, by id or because they have a pin of their own. A change of an asset costs what its
//! own followers cost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::channel::mpsc::UnboundedSender;
use plugin_sdk::{FeedItem, Follow, Mono, Standing};
use prodspec_model::AssetId;

use super::input::FeedNo;
use crate::kernel::{Kernel, News};

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
    /// Whether it follows the assets with a pin of their own.
    follows_pinned: bool,
}

impl Attached {
    /// Begins a feed with the lease and the newest incarnation.
    pub(super) fn begin(
        &mut self,
        kernel: &mut Kernel,
        no: FeedNo,
        items: UnboundedSender<FeedItem>,
    ) {
        let reader = Reader {
            items,
            assets: BTreeSet::new(),
            follows_pinned: false,
        };
        self.feeds.insert(no, reader);
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

    /// Passes on the news of one step of the kernel.
    pub(super) fn report(&mut self, kernel: &mut Kernel, news: &mut Vec<News>) {
        for news in news.drain(..) {
            match news {
                News::Took(newest) => self.send_all(kernel, &FeedItem::Took(newest)),
                News::Pinned(standings) => {
                    let readers = self.feeds.iter().filter(|(_, it)| it.follows_pinned);
                    for no in readers.map(|(no, _)| *no).collect::<Vec<_>>() {
                        self.send(kernel, no, FeedItem::Standings(standings.clone()));
                    }
                }
                News::Followed(standings) => self.report_followed(kernel, standings),
            }
        }
    }

    fn report_followed(&mut self, kernel: &mut Kernel, standings: Vec<(AssetId, Standing)>) {
        let mut by_feed: BTreeMap<FeedNo, Vec<_>> = BTreeMap::new();
        for (asset, standing) in standings {
            for no in self.followers.get(&asset).into_iter().flatten() {
                let told = (asset.clone(), standing.clone());
                by_feed.entry(*no).or_default().push(told);
            }
        }
        for (no, told) in by_feed {
            self.send(kernel, no, FeedItem::Standings(told));
        }
    }

    /// Changes the assets that a feed follows, and reports the present standings of those that it adds.
    pub(super) fn follow(&mut self, kernel: &mut Kernel, no: FeedNo, what: Follow) {
        let Some(reader) = self.feeds.get_mut(&no) else {
            return;
        };
        let standings = match what {
            Follow::Pinned => {
                reader.follows_pinned = true;
                kernel.follow_pinned()
            }
            Follow::Assets(assets) => self.follow_assets(kernel, no, assets),
            Follow::Not(assets) => {
                for asset in assets {
                    if reader.assets.remove(&asset) {
                        leave(&mut self.followers, kernel, no, &asset);
                    }
                }
                return;
            }
            // A newer version of the SDK names it.
            _ => return,
        };
        self.send(kernel, no, FeedItem::Standings(standings));
    }

    fn follow_assets(
        &mut self,
        kernel: &mut Kernel,
        no: FeedNo,
        assets: Vec<AssetId>,
    ) -> Vec<(AssetId, Standing)> {
        let mut standings = Vec::with_capacity(assets.len());
        for asset in assets {
            let followers = self.followers.entry(asset.clone()).or_default();
            let standing = kernel.follow(&asset);
            if !followers.is_empty() {
                kernel.unfollow(&asset);
            }
            followers.insert(no);
            if let Some(reader) = self.feeds.get_mut(&no) {
                reader.assets.insert(asset.clone());
            }
            standings.push((asset, standing));
        }
        standings
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
