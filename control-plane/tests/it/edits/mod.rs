//! R34, S6: programs edit sources: tried with the whole pipeline, made once, held against other programs, and never
//! against a person.

pub(crate) mod dying;
mod named;
mod together;

use std::{collections::BTreeSet, path::PathBuf};

use control_plane::{
    EditRefused, Edited, Error,
    prelude::*,
    sdk::{ChangeId, EditableSource},
    store::records::HeldField,
};
use plugin_sdk::Holder;

use crate::world::{LONG, Production, Running, ann, id, plane, write};

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
    let wrong = attempt(other).await;
    assert!(matches!(wrong, EditRefused::UnknownSource(_)), "{wrong}");
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

#[tokio::test]
async fn r34_turndown_that_others_asked_for_refuses_no_edit_without_the_power() {
    let world = World::new();
    let running = world.start().await;
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let may_not = |fields: Vec<FieldEdit>| edit(fields).held_by("resize").turndown(false);
    // Not read yet: the source is not watched.
    let by_hand = MANIFEST.replace("{size: 2}", "{size: 2, turndown: true}");
    write(world.dir.path(), &by_hand);
    let nothing = may_not(vec![set("services.eu.size", 1, 1)]);
    handle.edit(&nothing).await.unwrap();
    let path = "services.asia.turndown".parse().unwrap();
    let down = FieldEdit::add("manifest.yaml#0", path, true);
    let down = refused(handle.edit(&may_not(vec![down])).await);
    assert!(
        matches!(&down, EditRefused::Turndown(of) if *of == id("asia")),
        "{down}"
    );
    let grown = may_not(vec![set("services.eu.size", 1, 4)]);
    handle.edit(&grown).await.unwrap();
    assert_eq!(world.text(), by_hand.replace("{size: 1}", "{size: 4}"));
    running.stop().await;
}
