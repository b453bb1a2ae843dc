//! R34: an edit whose process dies is made once.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use control_plane::{
    EditRefused,
    prelude::*,
    sdk::{ChangeId, EditError, EditableSource, Proposal, SourceChange, Update},
};
use futures::stream::BoxStream;
use prodspec_model::{Revision, SourceName};

use super::{World, edit, overwritten, refused, set};
use crate::world::{LONG, write};

/// A source whose process dies during the next commit.
pub(crate) struct Dying {
    pub(crate) file: YamlFile,
    /// 0: it lives. 1: it dies before the file is replaced. 2: afterwards.
    pub(crate) dies: Arc<AtomicU8>,
}

#[async_trait]
impl SourceOfTruth for Dying {
    fn name(&self) -> SourceName {
        self.file.name()
    }

    async fn read(&self) -> Result<Reading, Problems> {
        self.file.read().await
    }

    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        self.file.read_since(known).await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.file.changes()
    }
}

#[async_trait]
impl EditableSource for Dying {
    async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError> {
        self.file.propose(change).await
    }

    async fn commit(
        &self,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError> {
        let dies = self.dies.swap(0, Ordering::Relaxed);
        if dies == 2 {
            self.file.commit(change, proposal).await?;
        }
        match dies {
            0 => self.file.commit(change, proposal).await,
            _ => Err(EditError::Unknown(Problem::new("died").into())),
        }
    }
}

/// What a person does to the manifest between the death and the next try.
fn by_hand(path: &Path, nth: u8) {
    let text = std::fs::read_to_string(path).unwrap();
    let text = match nth {
        0 => return,
        1 => text.replace("asia: {size: 3}", "asia: {size: 6} # by hand"),
        _ => format!("{text}# by hand\n"),
    };
    std::fs::write(path, text).unwrap();
}

#[tokio::test(start_paused = true)]
async fn r34_edit_whose_process_dies_is_made_once_whatever_happens_to_the_file_meanwhile() {
    for dies in [1, 2] {
        for hand in 0..3 {
            let world = World::new();
            let switch = Arc::new(AtomicU8::new(dies));
            let dying = || Dying {
                file: YamlFile::new(world.path()),
                dies: switch.clone(),
            };
            let running = world.start_with(dying()).await;
            let id = ChangeId::new("resize-7").unwrap();
            let edit = edit([set("services.eu.size", 1, 7)]).held_by("one").id(id);
            let unknown = refused(running.handle.edit(&edit).await);
            assert!(matches!(unknown, EditRefused::Unknown { .. }), "{unknown}");
            running.stop().await;
            by_hand(&world.path(), hand);
            let expected = std::fs::read_to_string(world.path()).unwrap();
            let expected = expected.replace("eu: {size: 1}", "eu: {size: 7}");

            let running = world.start_with(dying()).await;
            running.handle.edit(&edit).await.unwrap();
            running.handle.settle(LONG).await.unwrap();
            assert_eq!(world.text(), expected, "{dies} {hand}");
            assert_eq!(world.production.size("eu"), Some(7));
            let fields = running.handle.held_fields().await.unwrap();
            assert_eq!((fields.len(), overwritten(&fields).len()), (1, 0));
            // It is made: a person may take it back, and it is not made again.
            write(
                world.dir.path(),
                &expected.replace("eu: {size: 7}", "eu: {size: 1}"),
            );
            running.handle.edit(&edit).await.unwrap();
            assert!(world.text().contains("eu: {size: 1}"));
            running.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn r34_edit_whose_field_a_person_set_after_the_death_is_refused_and_holds_nothing() {
    let world = World::new();
    let switch = Arc::new(AtomicU8::new(1));
    let dying = || Dying {
        file: YamlFile::new(world.path()),
        dies: switch.clone(),
    };
    let running = world.start_with(dying()).await;
    let id = ChangeId::new("resize-7").unwrap();
    let edit_of_one = edit([set("services.eu.size", 1, 7)]).held_by("one").id(id);
    let unknown = refused(running.handle.edit(&edit_of_one).await);
    assert!(matches!(unknown, EditRefused::Unknown { .. }), "{unknown}");
    running.stop().await;
    let text = world.text().replace("eu: {size: 1}", "eu: {size: 4}");
    write(world.dir.path(), &text);

    let running = world.start_with(dying()).await;
    let wrong = refused(running.handle.edit(&edit_of_one).await);
    assert!(
        wrong.to_string().contains("is 4, but 1 was expected"),
        "{wrong}"
    );
    assert_eq!(world.text(), text);
    let fields = running.handle.held_fields().await.unwrap();
    assert_eq!(
        overwritten(&fields),
        ["services.eu.size"],
        "its holder is told"
    );
    let other = edit([set("services.eu.size", 4, 5)]).held_by("two");
    running.handle.edit(&other).await.unwrap();
    running.stop().await;
}
