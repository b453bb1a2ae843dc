//! Seals into a store: incarnations are read back, and overrides are used up in the same commit.

use control_plane_store::MemoryStore;
use plugin_sdk::By;
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

/// The time at which overrides are given here, and at which incarnations are sealed.
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// One minute after [`NOW`].
fn later() -> Timestamp {
    NOW + jiff::SignedDuration::from_mins(1)
}

fn word(guard: &str) -> SealOverride {
    let by = By::new("ada", "moved");
    SealOverride::new(guard, Digest::of(b"this"), by, NOW, None)
}

async fn in_force(seals: &StoreSealer, now: Timestamp) -> Vec<SealOverride> {
    seals.overrides(now).await.unwrap().overrides
}

/// All overrides that were ever given, with their marks.
async fn recorded(store: &MemoryStore) -> Vec<SealOverride> {
    let all = record::load_all::<SealOverride>(store, &partition()).await;
    all.unwrap().into_iter().map(|(_, it)| it.value).collect()
}

#[test]
fn old_and_new_versions_take_turns_on_overrides_and_remarks() {
    let mut used = word("shrink-guard");
    used.used = Some(crate::overrides::UsedBySeal {
        at: NOW,
        incarnation: IncarnationNo(2),
    });
    control_plane_store::conformance::record(&used, &[]);
    let warnings = Problem::new("soon full").warning().into();
    let content = Digest::of(b"this");
    let remarks = Remarks { content, warnings };
    control_plane_store::conformance::record(&remarks, &[]);
    control_plane_store::conformance::words(&used, &[]);
    control_plane_store::conformance::words(&remarks, &[]);
}

#[tokio::test]
async fn r5_seal_keeps_what_a_newer_version_wrote_into_remarks_and_head() {
    let store = MemoryStore::new();
    let (seals, mut memo) = (over(&store), Memo::default());
    let all = ["remarks/test", "head/test"].map(control_plane_store::Key::from);
    for size in [1, 2] {
        let items = json!({ "items": [size] });
        seal(&seals, &mut memo, items, Vec::new()).await.unwrap();
        for (key, row) in all.iter().zip(store.get(&all).await.unwrap()) {
            let row = row.unwrap().value;
            let mut json: serde_json::Value = serde_json::from_slice(&row).unwrap();
            assert_eq!(json.get("zone").is_some(), size == 2, "{key}");
            json["zone"] = json!("eu");
            let batch = Batch::new().put(key.clone(), json.to_string());
            store.commit(batch).await.unwrap();
        }
        seals.at_hand().latest = None;
        seals.latest().await.unwrap();
    }
}

#[tokio::test]
async fn r5_remark_of_an_unknown_severity_is_a_warning_and_stops_nothing() {
    let store = MemoryStore::new();
    let warnings = Problem::new("soon full").warning().into();
    let content = Digest::of(b"this");
    let mut json = serde_json::to_value(Remarks { content, warnings }).unwrap();
    json["warnings"][0]["severity"] = json!("grave");
    let batch = Batch::new().put("remarks/test", json.to_string());
    store.commit(batch).await.unwrap();
    let read = over(&store).remarks().await.unwrap().unwrap();
    assert!(!read.warnings.is_empty() && !read.warnings.any_error());
}

/// Drafts, seals and accepts the items of a manifest.
async fn seal(
    seals: &StoreSealer,
    memo: &mut Memo,
    manifest: serde_json::Value,
    spent: Vec<SealOverride>,
) -> Result<Incarnation, BoxError> {
    let parent = seals.latest().await?;
    let readings: Readings = [(
        SourceName("docs".into()),
        Ok(testing::items(manifest).into()),
    )]
    .into();
    let pipeline = testing::builder().build()?;
    let draft = memo.draft(&pipeline, readings, parent.as_ref());
    let draft = draft.map_err(|refused| refused.problems)?;
    let seal = Seal::of(&partition(), &draft, spent, NOW);
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
async fn r2_revisions_of_an_unchanged_run_are_recorded_if_they_are_not_those_of_the_newest_incarnation()
 {
    let store = MemoryStore::new();
    let (seals, mut memo) = (over(&store), Memo::new());
    let recorded = async || {
        let seen = record::load::<Seen>(&store, &partition(), "").await;
        seen.unwrap().map(|seen| seen.value.0)
    };
    let sealed = seal(&seals, &mut memo, json!({"a": {"n": 1}}), vec![]);
    let sealed = sealed.await.unwrap();
    seals.seen(&sealed.header().sources).await.unwrap();
    assert_eq!(recorded().await, None);

    let later: BTreeMap<_, _> = [(SourceName("docs".into()), Revision("later".into()))].into();
    seals.seen(&later).await.unwrap();
    assert_eq!(recorded().await, Some(later));

    let next = seal(&seals, &mut memo, json!({"a": {"n": 2}}), vec![])
        .await
        .unwrap();
    assert_eq!(recorded().await, None);
    seals.seen(&next.header().sources).await.unwrap();
    assert_eq!(recorded().await, None);
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
        Ok(testing::items(json!({"a": {"n": 3}})).into()),
    )]
    .into();
    let pipeline = testing::builder().build().unwrap();
    let draft = Memo::new()
        .draft(&pipeline, readings, parent.as_ref())
        .unwrap();
    let late = Seal::of(&partition(), &draft, vec![], NOW);
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
        seals.allow(word(guard), None).await.unwrap();
    }
    assert_eq!(in_force(&seals, NOW).await.len(), 2);
    let shrink = || vec![word("shrink-guard")];
    seal(&seals, &mut memo, json!({"a": {"n": 1}}), shrink())
        .await
        .unwrap();
    assert_eq!(in_force(&seals, NOW).await, [word("growth-guard")]);
    let again = seal(&seals, &mut memo, json!({"a": {"n": 2}}), shrink()).await;
    assert!(again.unwrap_err().is::<NotInForce>());
    // The used one is kept, with the seal that used it.
    let used = SealOverride {
        used: Some(crate::overrides::UsedBySeal {
            at: NOW,
            incarnation: IncarnationNo(1),
        }),
        ..word("shrink-guard")
    };
    assert_eq!(recorded(&store).await, [word("growth-guard"), used]);
    // The unused one expires, and is kept too.
    let next_day = NOW + jiff::SignedDuration::from_hours(24);
    assert_eq!(in_force(&seals, next_day).await, []);
    assert_eq!(recorded(&store).await.len(), 2);
}

#[tokio::test]
async fn r4_repeated_override_is_used_up_by_one_seal() {
    let store = MemoryStore::new();
    let seals = over(&store);
    let again = SealOverride {
        by: By::new("bob", "as ada says"),
        at: later(),
        ..word("shrink-guard")
    };
    seals.allow(word("shrink-guard"), None).await.unwrap();
    seals.allow(again.clone(), None).await.unwrap();
    assert!(in_force(&seals, later()).await.iter().eq([&again]));
    let parent = seals.latest().await.unwrap();
    let readings = [(
        SourceName("docs".into()),
        Ok(testing::items(json!({"a": {"n": 1}})).into()),
    )];
    let pipeline = testing::builder().build().unwrap();
    let draft = Memo::new().draft(&pipeline, readings.into(), parent.as_ref());
    let sealed = Seal::of(&partition(), &draft.unwrap(), vec![again], later());
    seals.seal(sealed).await.unwrap();
    // As after a restart.
    assert_eq!(in_force(&over(&store), later()).await, []);
    let names: Vec<_> = recorded(&store)
        .await
        .into_iter()
        .map(|it| it.by.who)
        .collect();
    assert_eq!(names, ["ada", "bob"], "both operators stay recorded");
}

#[tokio::test]
async fn r4_override_of_a_change_against_an_earlier_parent_is_refused() {
    let store = MemoryStore::new();
    let seals = over(&store);
    seal(&seals, &mut Memo::new(), json!({"a": {"n": 1}}), vec![])
        .await
        .unwrap();
    let late = seals.allow(word("shrink-guard"), None).await;
    assert!(late.unwrap_err().is::<Superseded>());
    assert_eq!(recorded(&store).await, []);
}

#[tokio::test]
async fn r4_unreadable_override_is_set_aside_and_told() {
    let store = MemoryStore::new();
    let seals = over(&store);
    seals.allow(word("growth-guard"), None).await.unwrap();
    let damaged = Batch::new().put("seal-override/test/shrink-guard/1", "{");
    store.commit(damaged).await.unwrap();
    let of_a_newer_version = serde_json::to_string(&word("board")).unwrap();
    let of_a_newer_version = of_a_newer_version.replacen('{', r#"{"new":1,"#, 1);
    let newer = Batch::new().put("seal-override/test/board/1", of_a_newer_version);
    store.commit(newer).await.unwrap();
    let found = seals.overrides(NOW).await.unwrap();
    assert_eq!(found.overrides, [word("board"), word("growth-guard")]);
    let told = found.set_aside.to_string();
    assert!(told.starts_with("warning: "), "{told}");
    assert!(
        told.contains("`seal-override/test/shrink-guard/1`"),
        "{told}"
    );
    seals.allow(word("growth-guard"), None).await.unwrap();
}

#[tokio::test]
async fn r3_warnings_are_kept_with_the_seal_and_unreadable_ones_stop_nothing() {
    let store = MemoryStore::new();
    let seals = over(&store);
    let readings: Readings = [(
        SourceName("docs".into()),
        Ok(testing::items(json!({"a": {"n": 1}})).into()),
    )]
    .into();
    let pipeline = testing::builder().build().unwrap();
    let draft = Memo::new().draft(&pipeline, readings, None).unwrap();
    let mut first = Seal::of(&partition(), &draft, vec![], NOW);
    first.warnings = Problem::new("few").warning().into();
    let remarks = first.remarks();
    seals.latest().await.unwrap();
    let sealed = seals.seal(first).await.unwrap();
    assert_eq!(over(&store).remarks().await.unwrap(), Some(remarks));
    let damaged = Batch::new().put("remarks/test", "{");
    store.commit(damaged).await.unwrap();
    let told = over(&store).remarks().await.unwrap().unwrap();
    assert_eq!(told.content, sealed.header().digest);
    let said = told.warnings.to_string();
    assert!(said.contains("`remarks/test`"), "{said}");
}

#[tokio::test]
async fn replaced_owner_cannot_seal() {
    let store = MemoryStore::new();
    let token = store
        .commit(Batch::new().put("owner/test", "{}"))
        .await
        .unwrap();
    let seals = over(&store).owned(FencingToken(token.0));
    seals.allow(word("shrink-guard"), None).await.unwrap();
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
    let first = Some(IncarnationNo(1));
    assert!(seals.allow(word("growth-guard"), first).await.is_err());
    assert_eq!(over(&store).latest().await.unwrap().unwrap().no().0, 1);
}
