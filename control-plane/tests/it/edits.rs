//! R34, S6: programs edit sources: tried with the whole pipeline, made once, held against other programs, and never
//! against a person.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use control_plane::{
    EditRefused, Edited, Error,
    prelude::*,
    sdk::{ChangeId, EditError, EditableSource, Proposal, SourceChange, Update},
    store::records::{HeldField, Holder},
};
use futures::stream::BoxStream;
use prodspec_model::{Revision, SourceName};

use crate::world::{LONG, Production, Running, Service, ann, id, plane, write};

const MANIFEST: &str =
    "# Our services.\nservices:\n  eu: {size: 1} # the first\n  us: {size: 2}\n  asia: {size: 3}\n";

/// A directory with a manifest, and a control plane that may edit it.
struct World {
    dir: tempfile::TempDir,
    store: MemoryStore,
    production: Production,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), MANIFEST);
        Self {
            dir,
            store: MemoryStore::new(),
            production: Production::default(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("manifest.yaml")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    async fn start(&self) -> Running {
        self.start_with(YamlFile::new(self.path())).await
    }

    async fn start_with(&self, source: impl EditableSource) -> Running {
        let plane = plane(&self.production)
            .store(self.store.clone())
            .editable(source)
            .validators(validators::standard())
            .build()
            .unwrap();
        let running = Running::start(plane);
        running.handle.wait_until_owner().await;
        running
    }
}

fn set(path: &str, was: u64, to: u64) -> FieldEdit {
    FieldEdit::set("manifest.yaml#0", path.parse().unwrap(), was, to)
}

fn edit(fields: impl IntoIterator<Item = FieldEdit>) -> SourceEdit {
    SourceEdit::new("manifest.yaml", ann()).fields(fields)
}

fn refused(result: Result<Edited, Error>) -> EditRefused {
    match result.unwrap_err() {
        Error::Edit(refused) => refused,
        other => panic!("{other}"),
    }
}

fn overwritten(fields: &[HeldField]) -> Vec<String> {
    let fields = fields.iter().filter(|field| field.overwritten.is_some());
    fields.map(|field| field.edit.path.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn r34_edit_of_a_file_becomes_intent_and_then_production() {
    let world = World::new();
    let running = world.start().await;
    running.handle.settle(LONG).await.unwrap();
    let edit = edit([set("services.eu.size", 1, 7)]);
    let tried = running.handle.dry_run_edit(&edit).await.unwrap();
    assert!(
        tried.diff.contains("+  eu: {size: 7} # the first"),
        "{}",
        tried.diff
    );
    assert_eq!(tried.plan.assets.len(), 1);
    assert_eq!(world.text(), MANIFEST, "a dry run changes nothing");
    let edited = running.handle.edit(&edit).await.unwrap();
    assert_eq!(edited.changes, tried.changes);
    assert_eq!(edited.changes[0].id, id("eu"));
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(world.text(), MANIFEST.replace("{size: 1}", "{size: 7}"));
    assert_eq!(world.production.size("eu"), Some(7));
    let again = running.handle.edit(&edit).await.unwrap();
    assert_eq!((again.revision, again.changes.len()), (edited.revision, 0));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r34_edit_is_refused_in_order_and_nothing_is_changed() {
    let world = World::new();
    let running = world.start().await;
    running.handle.settle(LONG).await.unwrap();
    let attempt = async |edit: SourceEdit| refused(running.handle.edit(&edit).await);
    let wrong = attempt(edit([set("services.eu.size", 9, 7)])).await;
    assert!(
        wrong.to_string().contains("is 1, but 9 was expected"),
        "{wrong}"
    );
    let unknown = FieldEdit::add(
        "manifest.yaml#0",
        "services.eu.needs".parse().unwrap(),
        ["mars"].to_vec(),
    );
    let wrong = attempt(edit([unknown])).await;
    assert!(
        wrong.to_string().contains("mars"),
        "validators are asked: {wrong}"
    );
    let both = || edit([set("services.eu.size", 1, 7), set("services.us.size", 2, 7)]);
    let wrong = attempt(both().blast_radius(1)).await;
    assert!(
        matches!(
            wrong,
            EditRefused::BlastRadius {
                assets: 2,
                allowed: 1
            }
        ),
        "{wrong}"
    );
    let many = (0..1001).map(|n| set(&format!("services.s{n}.size"), 1, 2));
    assert!(matches!(
        attempt(edit(many)).await,
        EditRefused::TooLarge { limit: 1000, .. }
    ));
    let other = SourceEdit::new("other.yaml", ann());
    let wrong = running.handle.edit(&other).await.unwrap_err();
    assert!(matches!(wrong, Error::UnknownSource(_)), "{wrong}");
    assert_eq!(world.text(), MANIFEST);
    let twice = ChangeId::new("one").unwrap();
    running
        .handle
        .edit(&edit([set("services.eu.size", 1, 7)]).id(twice.clone()))
        .await
        .unwrap();
    let wrong = attempt(both().id(twice)).await;
    assert!(matches!(wrong, EditRefused::IdUsed(_)), "{wrong}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r34_source_that_is_not_editable_is_refused() {
    let world = World::new();
    let plane = plane(&world.production)
        .store(MemoryStore::new())
        .source(YamlFile::new(world.path()))
        .build()
        .unwrap();
    let running = Running::start(plane);
    running.handle.wait_until_owner().await;
    let wrong = refused(
        running
            .handle
            .edit(&edit([set("services.eu.size", 1, 7)]))
            .await,
    );
    assert!(matches!(wrong, EditRefused::NotEditable(_)), "{wrong}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn s6_field_is_held_until_its_holder_lets_go_also_over_a_restart() {
    let world = World::new();
    let running = world.start().await;
    let first = edit([set("services.eu.size", 1, 7)]).held_by("one");
    running.handle.edit(&first).await.unwrap();
    running.stop().await;

    let running = world.start().await;
    let whole = FieldEdit::set(
        "manifest.yaml#0",
        "services.eu".parse().unwrap(),
        serde_json::json!({"size": 7}),
        serde_json::json!({"size": 8}),
    );
    let held = refused(
        running
            .handle
            .edit(&edit([whole.clone()]).held_by("two"))
            .await,
    );
    assert!(
        held.to_string().contains(
            "`services.eu.size` in manifest.yaml#0 of manifest.yaml is held by one since"
        ),
        "{held}"
    );
    running
        .handle
        .edit(&edit([set("services.us.size", 2, 5)]).held_by("two"))
        .await
        .unwrap();
    running
        .handle
        .edit(&edit([set("services.eu.size", 7, 9)]).held_by("one"))
        .await
        .unwrap();
    let fields = running.handle.held_fields().await.unwrap();
    let was: Vec<_> = fields
        .iter()
        .map(|field| field.edit.was.clone().unwrap())
        .collect();
    assert_eq!(
        was,
        [1, 2],
        "what each field was before its holder set it first"
    );
    let released = running.handle.release_fields(&"one".into()).await.unwrap();
    assert_eq!(released.len(), 1);
    let whole = FieldEdit {
        was: Some(serde_json::json!({"size": 9})),
        ..whole
    };
    running.handle.edit(&edit([whole])).await.unwrap();
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn s6_field_that_a_person_sets_is_theirs_and_its_holder_is_told() {
    let world = World::new();
    let running = world.start().await;
    let both = edit([set("services.eu.size", 1, 7), set("services.us.size", 2, 7)]);
    running.handle.edit(&both.held_by("one")).await.unwrap();
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(
        overwritten(&running.handle.held_fields().await.unwrap()),
        [""; 0]
    );
    write(
        world.dir.path(),
        &world.text().replace("eu: {size: 7}", "eu: {size: 4}"),
    );
    let holder = Holder::from("one");
    let none = BTreeSet::new();
    let told = running.handle.overwritten_fields(&holder, &none);
    let (told, settled) = tokio::join!(told, running.handle.settle(LONG));
    settled.unwrap();
    let told = told.unwrap();
    assert_eq!(overwritten(&told), ["services.eu.size"]);
    assert_eq!(told[0].overwritten.as_ref().unwrap().found, Some(4.into()));
    running
        .handle
        .edit(&edit([set("services.eu.size", 4, 5)]).held_by("two"))
        .await
        .unwrap();
    let held = refused(
        running
            .handle
            .edit(&edit([set("services.us.size", 7, 5)]))
            .await,
    );
    assert!(matches!(held, EditRefused::Held(_)), "{held}");
    running.stop().await;
}

/// A source whose process dies during a commit.
struct Dying {
    file: YamlFile,
    /// 0: it lives. 1: it dies before the file is replaced. 2: afterwards.
    dies: Arc<AtomicU8>,
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
        let dies = self.dies.load(Ordering::Relaxed);
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

            switch.store(0, Ordering::Relaxed);
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

/// Makes one asset per document of a table.
struct Rows;

impl Generator for Rows {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("rows", "services").makes::<Service>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let asset = Asset::builder(AssetId::new(&document.name())?);
            out.asset(
                asset.payload(&document.read::<Service>()?)?,
                document.provenance(),
            )?;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn r34_table_in_the_store_is_edited_in_one_commit_with_its_ledger() {
    let (store, production) = (MemoryStore::new(), Production::default());
    let plane = || {
        ControlPlane::builder("world")
            .store(store.clone())
            .table("services")
            .generator(Rows)
            .asset_plugin::<Service>(Plugin::new(production.clone()))
            .build()
            .unwrap()
    };
    let running = Running::start(plane());
    running.handle.wait_until_owner().await;
    let row = |name: &str, size| {
        FieldEdit::add(
            name,
            FieldPath::default(),
            serde_json::json!({ "size": size }),
        )
    };
    let services = || SourceEdit::new("services", ann());
    let added = services()
        .field(row("eu", 1))
        .field(row("us", 2))
        .held_by("one");
    running.handle.edit(&added).await.unwrap();
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(
        (production.size("eu"), production.size("us")),
        (Some(1), Some(2))
    );
    running.stop().await;

    let running = Running::start(plane());
    running.handle.wait_until_owner().await;
    let resize = FieldEdit::set("eu", "size".parse().unwrap(), 1, 5);
    let held = refused(running.handle.edit(&services().field(resize.clone())).await);
    assert!(matches!(held, EditRefused::Held(_)), "{held}");
    running
        .handle
        .edit(&services().field(resize).held_by("one"))
        .await
        .unwrap();
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(production.size("eu"), Some(5));
    let reading = running.handle.read_source("services").await.unwrap();
    assert_eq!(reading.documents.len(), 2);
    running.stop().await;
}

/// The size that a service has in the manifest.
async fn size(handle: &Handle, service: &str) -> u64 {
    let reading = handle.read_source("manifest.yaml").await.unwrap();
    reading.documents[0]
        .read_at(&format!("services.{service}.size"))
        .unwrap()
}

/// Adds one to the size of a service, `times` times. Returns how often another writer was faster.
async fn count(handle: &Handle, service: &str, times: u32) -> u32 {
    let (mut done, mut beaten) = (0, 0);
    while done < times {
        let was = size(handle, service).await;
        let path = format!("services.{service}.size");
        match handle.edit(&edit([set(&path, was, was + 1)])).await {
            Ok(_) => done += 1,
            Err(Error::Edit(EditRefused::Refused(_))) => beaten += 1,
            Err(Error::Edit(EditRefused::KeepsChanging(_))) => {}
            Err(other) => panic!("{other}"),
        }
    }
    beaten
}

/// Two programs edit a field of their own and one field together, while a person adds comments to the file.
#[tokio::test(flavor = "multi_thread")]
async fn r34_two_programs_and_a_person_edit_one_file() {
    const TIMES: u32 = 25;
    let world = World::new();
    let running = world.start().await;
    running.handle.settle(LONG).await.unwrap();
    let handle = &running.handle;
    let person = async {
        for n in 0..TIMES {
            let file = std::fs::OpenOptions::new().append(true).open(world.path());
            file.unwrap()
                .write_all(format!("# note {n}\n").as_bytes())
                .unwrap();
            tokio::task::yield_now().await;
        }
    };
    let first = async { count(handle, "eu", TIMES).await + count(handle, "asia", TIMES).await };
    let second = async { count(handle, "us", TIMES).await + count(handle, "asia", TIMES).await };
    tokio::join!(person, first, second);
    let sizes = (
        size(handle, "eu").await,
        size(handle, "us").await,
        size(handle, "asia").await,
    );
    let times = u64::from(TIMES);
    assert_eq!(
        sizes,
        (1 + times, 2 + times, 3 + 2 * times),
        "every edit landed once"
    );
    let text = world.text();
    assert!(
        text.starts_with("# Our services.\nservices:\n  eu: {size: 26} # the first\n"),
        "{text}"
    );
    running.stop().await;
}
