//! Assets, incarnations and requests for tests, made without sources and generators.

use std::sync::Arc;

use jiff::Timestamp;
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationId, IncarnationNo, Message, PartitionId, Snapshot,
    incarnation::Header,
};
use serde::{Deserialize, Serialize};

use crate::{AssetIntent, Change, CheckRequest, Effects, IncarnationReader, Mono, Now, Observed};

/// Wall-clock time of the requests made here: Wednesday, 2026-03-04 12:00 UTC.
pub const NOW: Timestamp = Timestamp::constant(1_772_625_600, 0);

/// A payload for tests, without a meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Thing {
    /// Any text. Assets with different texts differ.
    pub content: String,
}

impl Message for Thing {
    const TYPE: &'static str = "testing.v1.Thing";
}

/// Makes an asset with an empty [`Thing`]; change it with `edit()`.
///
/// # Panics
/// If `id` is not a valid asset id.
#[allow(
    clippy::expect_used,
    reason = "a wrong constant in a test has to fail the test"
)]
pub fn asset(id: &str) -> Asset {
    Asset::builder(AssetId::new(id).expect("an asset id"))
        .payload(&Thing::default())
        .and_then(|asset| asset.build())
        .expect("a thing is an asset")
}

/// Makes incarnation `no` of the partition `test`, sealed at [`NOW`].
pub fn incarnation(no: u32, assets: impl IntoIterator<Item = Asset>) -> Incarnation {
    let no = IncarnationNo(no);
    let snapshot = Snapshot::empty().edit(no, assets.into_iter().collect(), &[]);
    sealed(no, None, snapshot)
}

/// Makes the incarnation after `parent`, with the assets `put` and without those named in `removed`, sealed at [`NOW`].
/// Without a parent it is the first one.
///
/// # Panics
/// If a name in `removed` is not a valid asset id.
#[allow(
    clippy::expect_used,
    reason = "a wrong constant in a test has to fail the test"
)]
pub fn seal(parent: Option<&Incarnation>, put: Vec<Asset>, removed: &[&str]) -> Incarnation {
    let number = parent.map(Incarnation::no);
    let no = number.unwrap_or_default().next();
    let removed = removed.iter().map(|name| AssetId::new(name));
    let removed: Result<Vec<_>, _> = removed.collect();
    let before = parent.map_or_else(Snapshot::empty, |parent| parent.snapshot().clone());
    let snapshot = before.edit(no, put, &removed.expect("asset ids"));
    sealed(no, number, snapshot)
}

#[allow(clippy::expect_used, reason = "the id is a constant")]
fn sealed(no: IncarnationNo, parent: Option<IncarnationNo>, snapshot: Snapshot) -> Incarnation {
    let partition = PartitionId::new("test").expect("a partition id");
    let id = IncarnationId::new(partition, no);
    Incarnation::new(Header::new(id, parent, &snapshot, NOW), snapshot)
}

/// Makes a reader of incarnation 1 with `assets`.
pub fn reader(assets: impl IntoIterator<Item = Asset>) -> IncarnationReader {
    IncarnationReader::new(incarnation(1, assets))
}

/// Makes a check request for a push of `asset` at `test@1`, at [`NOW`], with the cause intent. It has no effects and no
/// view; set the fields for more.
pub fn check_request(asset: &Asset) -> CheckRequest {
    let incarnation = incarnation(1, [asset.clone()]);
    let change = Change::new(asset, "change it", vec![], Effects::default());
    let now = Now {
        mono: Mono(0),
        wall: NOW,
    };
    let intent = AssetIntent::new(incarnation, asset.clone());
    CheckRequest::new(intent, Arc::new(change), Observed::default(), now)
}

/// The request as it is after it crossed a process boundary: its intent has no content.
pub fn without_content(mut request: CheckRequest) -> CheckRequest {
    let intent = request.intent;
    request.intent = AssetIntent::named(intent.incarnation().clone(), intent.id().clone());
    request
}
