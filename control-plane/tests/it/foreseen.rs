//! The trial of a step's edit is made while its attempt is written, and counts only while it tells what the edit does.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use control_plane::{
    prelude::*,
    sdk::{EditError, EditableSource, Proposal, SourceChange},
    workflow::{Say, Start},
};
use futures::{StreamExt, stream, stream::BoxStream};
use prodspec_model::{Revision, SourceName};

use crate::{
    workflows::{COMMENTED, asks, editing_with},
    world::*,
};

/// A manifest of which only this program tells that it has changed.
struct Counted {
    file: YamlFile,
    path: PathBuf,
    proposals: Arc<AtomicUsize>,
    /// Whether a person edits another field when the first change was proposed.
    meddles: AtomicBool,
}

#[async_trait]
impl SourceOfTruth for Counted {
    fn name(&self) -> SourceName {
        self.file.name()
    }

    async fn read(&self) -> Result<Reading, Problems> {
        self.file.read().await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }
}

#[async_trait]
impl EditableSource for Counted {
    async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError> {
        self.proposals.fetch_add(1, Ordering::Relaxed);
        let proposal = self.file.propose(change).await;
        if self.meddles.swap(false, Ordering::Relaxed) {
            std::fs::write(&self.path, COMMENTED.replace("size: 5", "size: 9")).unwrap();
        }
        proposal
    }

    async fn commit(
        &self,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError> {
        self.file.commit(change, proposal).await
    }
}

/// The number of proposals for one edit of a step, and the manifest after it.
async fn edited(meddles: bool) -> (usize, String) {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), COMMENTED);
    let (path, proposals) = (dir.path().join("manifest.yaml"), Arc::default());
    let manifest = Counted {
        file: YamlFile::watch(path.clone()),
        path: path.clone(),
        proposals: Arc::clone(&proposals),
        meddles: meddles.into(),
    };
    let running = editing_with(dir.path(), &production, manifest);
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let started = handle.start(Start::of("double"), ann()).await.unwrap().id;
    asks(handle, &started, "keep").await;
    let proposals = proposals.load(Ordering::Relaxed);
    let text = std::fs::read_to_string(path).unwrap();
    handle
        .say(&started, Say::answer("keep", "yes"), ann())
        .await
        .unwrap();
    handle.wait_execution(&started, LONG).await.unwrap();
    running.stop().await;
    (proposals, text)
}

#[tokio::test]
async fn r34_trial_that_was_foreseen_is_not_made_again() {
    let doubled = COMMENTED.replace("size: 3", "size: 6");
    assert_eq!(edited(false).await, (1, doubled));
}

#[tokio::test]
async fn r34_trial_does_not_count_if_the_source_has_moved_since() {
    let both = COMMENTED.replace("size: 3", "size: 6");
    let both = both.replace("size: 5", "size: 9");
    assert_eq!(edited(true).await, (2, both));
}
