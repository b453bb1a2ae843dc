//! Seals into a store: incarnations are read back, and overrides are used up in the same commit.

use control_plane_store::MemoryStore;
use prodspec_model::Digest;
use serde_json::json;

use super::*;
use crate::{
    memo::{Memo, Readings},
    testing,
};

fn partition() -> PartitionId {
    PartitionId::new("test").unwrap()
}

fn over(store: &MemoryStore) -> StoreSealer {
    StoreSealer::new(Arc::new(store.clone()), partition())
}

fn word(guard: &str) -> SealOverride {
    SealOverride {
        guard: guard.into(),
        digest: Digest::of(b"this"),
        who: "ada".into(),
        why: "moved".into(),
    }
}

/// Drafts, seals and accepts the items of a manifest.
async fn seal(
    seals: &StoreSealer,
    memo: &mut Memo,
    manifest: serde_json::Value,
    spent: Vec<SealOverride>,
) -> Result<Incarnation, BoxError> {
    let parent = seals.latest().await?;
    let readings: Readings = [(SourceName("docs".into()), Ok(testing::items(manifest)))].into();
    let pipeline = testing::builder().build()?;
    let draft = memo.draft(&pipeline, readings, parent.as_ref());
    let draft = draft.map_err(|refused| refused.problems)?;
    let seal = Seal::of(&partition(), &draft, spent, jiff::Timestamp::UNIX_EPOCH);
    let sealed = seals.seal(seal).await?;
    memo.accept(draft);
    Ok(sealed)
}

#[tokio::test]
async fn sealed_incarnation_is_in_force_for_every_reader() {
    let store = MemoryStore::new();
    let (seals, mut memo) = (over(&store), Memo::new());
    let mut run = async |manifest| seal(&seals, &mut memo, manifest, vec![]).await.unwrap();
    run(json!({"a": {"n": 1}})).await;
    let second = run(json!({"a": {"n": 1}, "b": {"n": 2}})).await;
    let read = over(&store).latest().await.unwrap().unwrap();
    assert_eq!(read.header(), second.header());
    assert_eq!(read.snapshot().digest(), second.snapshot().digest());
    // A run after a restart builds on the incarnation that was read.
    let third = seal(
        &over(&store),
        &mut Memo::new(),
        json!({"b": {"n": 2}}),
        vec![],
    )
    .await
    .unwrap();
    assert_eq!((third.no().0, third.snapshot().len()), (3, 1));
}

#[tokio::test]
async fn seal_on_an_outdated_parent_is_superseded() {
    let store = MemoryStore::new();
    let (one, two) = (over(&store), over(&store));
    seal(&one, &mut Memo::new(), json!({"a": {"n": 1}}), vec![])
        .await
        .unwrap();
    let parent = two.latest().await.unwrap();
    let readings: Readings = [(
        SourceName("docs".into()),
        Ok(testing::items(json!({"a": {"n": 3}}))),
    )]
    .into();
    let pipeline = testing::builder().build().unwrap();
    let draft = Memo::new()
        .draft(&pipeline, readings, parent.as_ref())
        .unwrap();
    let late = Seal::of(&partition(), &draft, vec![], jiff::Timestamp::UNIX_EPOCH);
    seal(&one, &mut Memo::new(), json!({"a": {"n": 2}}), vec![])
        .await
        .unwrap();
    assert!(two.seal(late.clone()).await.is_err());
    two.latest().await.unwrap();
    assert!(two.seal(late).await.unwrap_err().is::<Superseded>());
}

#[tokio::test]
async fn r4_seal_spends_only_the_overrides_that_it_uses() {
    let store = MemoryStore::new();
    let (seals, mut memo) = (over(&store), Memo::new());
    for guard in ["shrink-guard", "growth-guard"] {
        StoreSealer::allow(&store, &partition(), &word(guard))
            .await
            .unwrap();
    }
    assert_eq!(seals.overrides().await.unwrap().len(), 2);
    let shrink = || vec![word("shrink-guard")];
    seal(&seals, &mut memo, json!({"a": {"n": 1}}), shrink())
        .await
        .unwrap();
    assert_eq!(seals.overrides().await.unwrap(), [word("growth-guard")]);
    let again = seal(&seals, &mut memo, json!({"a": {"n": 2}}), shrink()).await;
    assert!(again.unwrap_err().is::<Withdrawn>());
}

#[tokio::test]
async fn replaced_owner_cannot_seal() {
    let store = MemoryStore::new();
    let token = store
        .commit(Batch::new().put("owner/test", "{}"))
        .await
        .unwrap();
    let seals = over(&store).owned(FencingToken(token.0));
    seal(&seals, &mut Memo::new(), json!({"a": {"n": 1}}), vec![])
        .await
        .unwrap();
    store
        .commit(Batch::new().put("owner/test", "{\"other\":1}"))
        .await
        .unwrap();
    assert!(
        seal(&seals, &mut Memo::new(), json!({"a": {"n": 2}}), vec![])
            .await
            .is_err()
    );
    let seen = [(SourceName("docs".into()), Revision("1".into()))].into();
    assert!(seals.seen(&seen).await.is_err());
    assert_eq!(over(&store).latest().await.unwrap().unwrap().no().0, 1);
}
