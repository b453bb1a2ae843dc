//! Encoded incarnations: the root of a snapshot, and its packs.
//!
//! An input is the root as JSON in its line, and the packs as [`parts`]. The digests of packs
//! are computed anew, so that damage within them is not found by the digest.

use prodspec_model::{
    Asset, Digest, IncarnationNo, Snapshot, TypeName,
    snapshot::{LoadError, Pack, Root},
};
use serde_json::json;

use super::parts;
use crate::target::{Broken, Class, Effort, Target, law};

/// Loads a snapshot from its root and its packs.
pub(crate) type Load = fn(&Root, Vec<Pack>) -> Result<Snapshot, LoadError>;

/// The loader of snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots(pub(crate) Load);

const WORDS: &[&str] = &[
    "{\"pack\":1,\"unit\":0}",
    "4294967295",
    "{\"no\":1,\"live\":1}",
    "null",
    "18446744073709551615",
];

impl Target for Snapshots {
    fn name(&self) -> &'static str {
        "snapshots"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        [0, 1, 3, 40]
            .map(|assets| encoded(&snapshot(assets)))
            .to_vec()
    }

    fn words(&self) -> &'static [&'static str] {
        WORDS
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        let (root, packs) = match decoded(input) {
            Ok(parts) => parts,
            Err(message) => return Ok(Class::refused(&message)),
        };
        for pack in &packs {
            let mut bytes = pack.bytes().to_vec();
            bytes.push(0);
            let refused = Pack::check(pack.no(), bytes, pack.digest()).is_err();
            law(refused, "a pack with another digest is refused", || {
                format!("{:?}", pack.no())
            })?;
        }
        match (self.0)(&root, packs) {
            Ok(snapshot) => {
                let again = (self.0)(&snapshot.root(), snapshot.packs().collect());
                let same = again
                    .as_ref()
                    .is_ok_and(|again| again.root() == snapshot.root());
                law(
                    same,
                    "a snapshot that is saved and loaded again is the same",
                    || format!("{root:?}\nthen {again:?}"),
                )?;
                Ok(Class::accepted(&[
                    snapshot.len().min(100),
                    snapshot.packs().count(),
                ]))
            }
            Err(error) => Ok(Class::refused(&error.to_string())),
        }
    }
}

/// A snapshot that two edits made.
fn snapshot(assets: usize) -> Snapshot {
    let first = edited(&Snapshot::empty(), IncarnationNo(1), assets);
    edited(&first, IncarnationNo(2), assets.div_ceil(7))
}

/// A snapshot after an edit of its first `assets` assets, which refer to each other.
pub(crate) fn edited(before: &Snapshot, no: IncarnationNo, assets: usize) -> Snapshot {
    let asset = |nth: usize| {
        let payload = json!({"replicas": no, "next": {"$asset": format!("job/{}", nth + 1)}});
        let builder = Asset::builder(format!("job/{nth}").parse().ok()?);
        builder
            .payload_value(TypeName::new("test.v1.Job").ok()?, &payload)
            .ok()?
            .build()
            .ok()
    };
    before.edit(no, (0..assets).filter_map(asset).collect(), &[])
}

fn encoded(snapshot: &Snapshot) -> Vec<u8> {
    let root = serde_json::to_vec(&snapshot.root()).unwrap_or_default();
    let packs: Vec<Vec<u8>> = snapshot.packs().map(|pack| pack.bytes().to_vec()).collect();
    parts::join(&root, &packs)
}

fn decoded(input: &[u8]) -> Result<(Root, Vec<Pack>), String> {
    let (root, parts) = parts::split(input);
    let root: Root = serde_json::from_slice(root).map_err(|error| error.to_string())?;
    let pack =
        |(no, bytes): (IncarnationNo, &[u8])| Pack::check(no, bytes.to_vec(), Digest::of(bytes));
    let packs: Result<Vec<Pack>, _> = root.packs().zip(parts).map(pack).collect();
    let packs = packs.map_err(|error| error.to_string())?;
    Ok((root, packs))
}
