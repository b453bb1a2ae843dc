//! External content from files to plugins: it is checked before the seal, kept with the incarnation, and removed after it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{fs, path::Path, sync::Arc, time::Duration};

use control_plane_store::{
    Batch, MemoryStore, Store,
    contents::Contents,
    incarnations::{Incarnations, Keep},
};
use plugin_sdk::{
    AssetType, Drafts, Generator, GeneratorInfo, IncarnationReader, Input, Problems, blobs,
};
use prodspec_gen::{
    BlobDirectory, Handle, Pipeline, Regeneration, StoreSealer, YamlFile, runtime::TokioRuntime,
};
use prodspec_model::{Asset, AssetId, Digest, ExternalRef, Message, PartitionId};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Model {
    weights: ExternalRef,
}

impl Message for Model {
    const TYPE: &'static str = "test.v1.Model";
}

struct Models;

impl Generator for Models {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_entry("models", "models.yaml", "models").makes::<Model>()
    }
    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        if let Some(entry) = input.entry() {
            let weights = entry.read()?;
            let asset = Asset::builder(AssetId::new(entry.key())?);
            out.asset(asset.payload(&Model { weights })?, entry.provenance())?;
        }
        Ok(())
    }
}

fn partition() -> PartitionId {
    PartitionId::new("test").unwrap()
}

/// Writes a manifest in which each of `names` refers to `file` by the digest of `content`.
fn refer(dir: &Path, names: &[&str], file: &str, content: &[u8]) {
    let digest = Digest::of(content);
    let entry = |name: &&str| format!("  {name}: {{ $external: {file}, digest: {digest} }}\n");
    let entries: String = names.iter().map(entry).collect();
    fs::write(dir.join("models.yaml"), format!("models:\n{entries}")).unwrap();
}

fn start(dir: &Path, store: &Arc<dyn Store>) -> Handle {
    let pipeline = Pipeline::builder(partition())
        .source(YamlFile::new(dir.join("models.yaml")))
        .generator(Models)
        .asset_type(AssetType::<Model>::new())
        .validators(prodspec_gen::validators::standard())
        .blobs(BlobDirectory::new(dir));
    let seals = StoreSealer::new(store.clone(), partition());
    let pipeline = pipeline.build().unwrap();
    let runtime = TokioRuntime::current();
    let (regeneration, handle) = Regeneration::new(runtime, pipeline, Arc::new(seals));
    tokio::spawn(regeneration.run());
    handle
}

/// The problems of the next run, or the incarnation in force after it.
async fn run(handle: &Handle) -> Result<u32, String> {
    let status = handle.next_run().await;
    match status.is_good() {
        true => Ok(status.incarnation.unwrap().id.no.0),
        false => Err(status.problems.to_string()),
    }
}

#[tokio::test(start_paused = true)]
async fn content_is_checked_at_the_seal_kept_with_the_incarnation_and_removed_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    refer(dir, &["fraud"], "one.bin", b"one");
    let handle = start(dir, &store);

    let missing = run(&handle).await.unwrap_err();
    assert!(
        missing.contains("models.yaml#0:2:10: fraud: payload.weights: `one.bin`: there is no content at this address"),
        "{missing}"
    );
    fs::write(dir.join("one.bin"), b"another").unwrap();
    let wrong = run(&handle).await.unwrap_err();
    let found = Digest::of(b"another").to_string();
    assert!(
        wrong.contains("payload.weights") && wrong.contains(&found),
        "{wrong}"
    );
    fs::write(dir.join("one.bin"), b"one").unwrap();
    assert_eq!(run(&handle).await, Ok(1));

    // The content is kept, so it is not read again for another reference, and plugins read the copy.
    fs::remove_file(dir.join("one.bin")).unwrap();
    refer(dir, &["fraud", "spam"], "one.bin", b"one");
    assert_eq!(run(&handle).await, Ok(2));
    let contents = Arc::new(Contents::new(store.clone(), partition()));
    let incarnations = Incarnations::new(store.clone(), partition());
    let latest = incarnations.latest().await.unwrap().unwrap();
    let reader = IncarnationReader::new(latest).with_blobs(contents);
    let model = reader.asset(&AssetId::new("spam").unwrap()).unwrap();
    let one = model.payload::<Model>().unwrap().weights;
    assert_eq!(reader.external(&one).await.unwrap(), b"one");

    // It goes with the last incarnation that refers to it.
    fs::write(dir.join("two.bin"), b"two").unwrap();
    refer(dir, &["fraud"], "two.bin", b"two");
    assert_eq!(run(&handle).await, Ok(3));
    let retain = async |count| {
        let keep = Keep {
            after: prodspec_model::IncarnationNo(3),
            count,
            age: Duration::ZERO,
            pinned: Default::default(),
        };
        let now = jiff::Timestamp::MAX;
        let removed = incarnations.retain(&keep, now, &Batch::new()).await;
        removed.unwrap().contents
    };
    assert_eq!(retain(2).await, 0);
    assert_eq!(reader.external(&one).await.unwrap(), b"one");
    assert_eq!(retain(1).await, 1);
    let gone = reader.external(&one).await.unwrap_err();
    assert!(matches!(gone, blobs::Error::Missing), "{gone}");
    let two = ExternalRef::new("two.bin", Digest::of(b"two"));
    assert_eq!(reader.external(&two).await.unwrap(), b"two");
}
