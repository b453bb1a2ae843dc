//! R34: edits of tables, and of a file that several writers edit at the same time.

use std::io::Write as _;

use control_plane::{EditRefused, Error, prelude::*};

use super::{World, edit, refused, set};
use crate::world::{LONG, Production, Running, Service, ann};

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
    // Another writer may replace the file while it is being read.
    let reading = loop {
        match handle.read_source("manifest.yaml").await {
            Ok(reading) => break reading,
            Err(error) => assert!(error.to_string().contains("read it again"), "{error}"),
        }
    };
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
