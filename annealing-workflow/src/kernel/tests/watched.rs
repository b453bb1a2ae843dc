//! Watches in the world: incarnations, standings, and the assets that the kernel follows.

use plugin_sdk::{Follow, Pin, Standing, SyncState, port::Made, standing::Reason, testing};
use prodspec_model::{
    Asset, AssetId, Filter,
    operation::{IntentWatch, Operation, PipelineStep, StatusIs, Watch as On, WatchOperation},
    snapshot::Change,
};

use super::*;
use crate::{view, watch};

/// The watch of these tests.
pub(super) const WATCH: &str = "watch/jobs";

pub(super) fn id(name: &str) -> AssetId {
    AssetId::new(name).unwrap()
}

/// An asset with this content.
pub(super) fn job(name: &str, content: &str) -> Asset {
    let content = content.to_owned();
    let thing = testing::Thing { content };
    let job = testing::asset(name).edit().payload(&thing);
    job.unwrap().build().unwrap()
}

/// A watch on all jobs that calls `notice`.
pub(super) fn on(on: On) -> WatchOperation {
    let run = PipelineStep::new("run", "notice");
    let mut watch = WatchOperation::new(on, Operation::pipeline([run]));
    watch.at_most = 4;
    watch
}

pub(super) fn jobs() -> Filter {
    Filter::default().under("job/")
}

pub(super) fn on_intent() -> WatchOperation {
    on(IntentWatch::default().of(jobs()))
}

/// A watch on jobs that are unhealthy for a minute.
pub(super) fn on_status() -> WatchOperation {
    let minute = Duration::from_secs(60);
    on(On::status([StatusIs::OutOfSync])
        .held_for(minute)
        .of(jobs()))
}

impl World {
    /// Seals an incarnation in which these assets have this content. Empty content: the asset is not there.
    pub(super) fn seal(&mut self, jobs: &[(&str, &str)]) {
        self.seal_with(jobs, Intended::default());
    }

    /// The same, with what it says of watches.
    pub(super) fn seal_with(&mut self, jobs: &[(&str, &str)], intended: Intended) {
        let put = jobs.iter().filter(|(_, content)| !content.is_empty());
        let put = put.map(|(name, content)| job(name, content)).collect();
        let gone = jobs.iter().filter(|(_, content)| content.is_empty());
        let gone: Vec<&str> = gone.map(|(name, _)| *name).collect();
        let sealed = testing::seal(self.sealed.last(), put, &gone);
        self.sealed.push(sealed.clone());
        self.step(Event::Took(sealed, Box::new(intended)));
    }

    /// Intent has this watch from the next incarnation on, or none of this asset.
    pub(super) fn watch(&mut self, name: &str, wanted: Option<&WatchOperation>) {
        let wanted = wanted.map(watch::Wanted::of);
        match &wanted {
            Some(wanted) => drop(self.watches.insert(id(name), wanted.clone())),
            None => drop(self.watches.remove(&id(name))),
        }
        let intended = Intended {
            watches: [(id(name), wanted)].into(),
            ..Intended::default()
        };
        self.seal_with(&[], intended);
    }

    /// Follows what the kernel asks for: the present standing is told at once.
    pub(super) fn follow(&mut self, follow: Vec<Follow>) {
        let mut told = Vec::new();
        for what in follow {
            match what {
                Follow::Assets(assets) => {
                    for asset in assets {
                        let standing = self.standings.get(&asset).cloned();
                        told.extend(standing.map(|it| (asset.clone(), it)));
                        self.followed.insert(asset);
                    }
                }
                Follow::Not(assets) => self.followed.retain(|it| !assets.contains(it)),
                other => panic!("{other:?}"),
            }
        }
        if !told.is_empty() {
            self.step(Event::Stands(told));
        }
    }

    /// The standing of an asset is this now. It is told if the kernel follows the asset.
    pub(super) fn stands(&mut self, asset: &str, state: SyncState) {
        self.told(asset, standing(state));
    }

    /// The next owner has yet to look at the asset.
    pub(super) fn is_forgotten(&mut self, asset: &str) {
        let since = self.now.wall;
        let mut found = standing(SyncState::out_of_sync(since));
        found.reason = Some(Reason::Looking);
        self.standings.insert(id(asset), found);
    }

    pub(super) fn told(&mut self, asset: &str, standing: Standing) {
        self.standings.insert(id(asset), standing.clone());
        if self.followed.contains(&id(asset)) {
            self.step(Event::Stands(vec![(id(asset), standing)]));
        }
    }

    pub(super) fn is_out(&mut self, asset: &str) {
        self.stands(asset, SyncState::out_of_sync(self.now.wall));
    }

    pub(super) fn is_in_sync(&mut self, asset: &str) {
        let since = self.now.wall;
        self.stands(asset, SyncState::InSync { since });
    }

    pub(super) fn all_watches(&mut self) -> Vec<view::WatchState> {
        match self.hear(Command::ShowWatches) {
            Reply::Watches(all) => all,
            other => panic!("{other:?}"),
        }
    }

    /// The assets that the runs are about that call `notice` now, sorted.
    pub(super) fn noticed(&self) -> Vec<String> {
        let calls = self.calls.values();
        let calls = calls.filter_map(|call| call.run.changed.as_ref());
        let assets = calls.flat_map(|changed| changed.assets.iter());
        let mut assets: Vec<String> = assets.map(|it| it.asset.to_string()).collect();
        assets.sort();
        assets
    }

    /// The answer of an edit that changed an asset.
    pub(super) fn made(&self, asset: &str, before: &str, after: &str) -> Made {
        let side = |content: &str| (!content.is_empty()).then(|| job(asset, content));
        Made {
            assets: vec![id(asset)],
            changes: vec![Change {
                before: side(before),
                after: side(after),
            }],
            left_alone: Vec::new(),
            sealed: IncarnationNo::default(),
        }
    }
}

/// The standing of an asset in this state.
pub(super) fn standing(state: SyncState) -> Standing {
    Standing::at(Pin::Default, Some(Digest([0; 32])), state)
}
