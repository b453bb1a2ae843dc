//! R34: fields of items of a list, named by a field of their item, are those of the same item wherever it moves.

use std::path::Path;

use control_plane::{EditRefused, prelude::*, sdk::document::Located};
use serde::Deserialize;

use super::{refused, set};
use crate::world::{LONG, Production, Running, Service, ann, write};

const MANIFEST: &str = "services:\n- {name: eu, size: 1}\n- {name: us, size: 2} # the last\n";

#[derive(Deserialize)]
struct Entry {
    name: String,
    size: u64,
}

/// Makes one asset per item of a list.
struct Items;

impl Generator for Items {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("items", "manifest.yaml").makes::<Service>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let entries: Vec<Located<Entry>> = document.read_at("services")?;
            for entry in entries.into_iter().map(|it| it.by("name", |it| &it.name)) {
                let size = entry.size;
                let asset =
                    Asset::builder(AssetId::new(&entry.name)?).payload(&Service { size })?;
                out.asset(asset, document.provenance_at(&*entry.path))?;
            }
        }
        Ok(())
    }
}

async fn start(dir: &Path, production: &Production) -> Running {
    let plane = ControlPlane::builder("world")
        .store(MemoryStore::new())
        .editable(YamlFile::new(dir.join("manifest.yaml")))
        .generator(Items)
        .asset_plugin::<Service>(Plugin::new(production.clone()))
        .build()
        .unwrap();
    let running = Running::start(plane);
    running.handle.wait_until_owner().await;
    running.handle.settle(LONG).await.unwrap();
    running
}

fn edit(path: &str, was: u64, to: u64) -> SourceEdit {
    SourceEdit::new("manifest.yaml", ann()).field(set(path, was, to))
}

#[tokio::test(start_paused = true)]
async fn r34_field_of_an_item_named_by_a_field_stays_held_when_items_come_before_it() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), MANIFEST);
    let text = || std::fs::read_to_string(dir.path().join("manifest.yaml")).unwrap();
    let running = start(dir.path(), &production).await;
    let us = r#"services[name="us"].size"#;
    let made = running.handle.edit(&edit(us, 2, 5).held_by("one")).await;
    assert_eq!(made.unwrap().changes.len(), 1);
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(production.size("us"), Some(5));

    // A person inserts an item, so that the held one moves from index 1 to 2.
    write(
        dir.path(),
        &text().replace("services:\n", "services:\n- {name: ap, size: 2}\n"),
    );
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(production.size("ap"), Some(2));
    let held = running.handle.held_fields().await.unwrap();
    let is_ours = held.iter().all(|field| field.overwritten.is_none());
    assert!(held.len() == 1 && is_ours, "{held:?}");
    for path in [us, "services[2].size", r#"services[size="5"].size"#] {
        let foreign = refused(running.handle.edit(&edit(path, 5, 6)).await);
        assert!(matches!(foreign, EditRefused::Held(_)), "{path}: {foreign}");
    }
    // Another program takes the item's name away neither by its index nor by another field.
    for path in ["services[2].name", r#"services[size="5"].name"#] {
        let rename = FieldEdit::set("manifest.yaml#0", path.parse().unwrap(), "us", "xx");
        let rename = SourceEdit::new("manifest.yaml", ann()).field(rename);
        let foreign = refused(running.handle.edit(&rename).await);
        assert!(matches!(foreign, EditRefused::Held(_)), "{path}: {foreign}");
    }
    let twice = edit(r#"services[size="5"].size"#, 5, 6).held_by("one");
    let twice = refused(running.handle.edit(&twice).await);
    assert!(
        matches!(twice, EditRefused::Held(_)),
        "under two paths: {twice}"
    );
    let ap = edit(r#"services[name="ap"].size"#, 2, 3);
    running.handle.edit(&ap).await.unwrap();

    // It goes back to the value that it had, in the item that it was.
    let back = edit(us, 5, 2).held_by("one");
    running.handle.edit(&back).await.unwrap();
    running.handle.settle(LONG).await.unwrap();
    let after = "services:\n- {name: ap, size: 3}\n- {name: eu, size: 1}\n- {name: us, size: 2} # the last\n";
    assert_eq!(text(), after);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r34_program_holds_nothing_that_is_named_by_its_place() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), MANIFEST);
    let running = start(dir.path(), &production).await;
    let by_index = edit("services[0].size", 1, 5);
    let counted = running.handle.edit(&by_index.clone().held_by("one")).await;
    let counted = refused(counted);
    assert!(matches!(counted, EditRefused::ByIndex(_)), "{counted}");
    running.handle.edit(&by_index).await.unwrap();

    write(dir.path(), &format!("{MANIFEST}---\nservices: []\n"));
    let eu = edit(r#"services[name="eu"].size"#, 1, 5);
    let placed = refused(running.handle.edit(&eu.clone().held_by("one")).await);
    assert!(matches!(placed, EditRefused::ByPlace(_)), "{placed}");
    running.handle.edit(&eu).await.unwrap();
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    running.stop().await;
}
