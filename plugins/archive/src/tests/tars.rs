//! Tar archives.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use plugin_sdk::{Document, SourceOfTruth, Update, conformance, document::DocumentKey};
use prodspec_gen::{
    format::Yaml,
    tree::{Stop, Tree, TreeSource},
};
use prodspec_model::Revision;
use proptest::prelude::*;
use tar::{EntryType, Header};

use super::{gzip, names, packed, refusal};
use crate::{Limits, Tar};

/// Replaces the archive, as a tool should.
fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, path).unwrap();
}

struct OnDisk(tempfile::TempDir);

impl OnDisk {
    fn of(bytes: impl AsRef<[u8]>) -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        write(&disk.path(), bytes);
        disk
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("a.tar")
    }

    fn tar(&self) -> Tar {
        Tar::new(self.path())
    }
}

async fn refused(bytes: impl AsRef<[u8]>) -> String {
    refusal(&OnDisk::of(bytes).tar().yaml()).await
}

#[tokio::test]
async fn plain_and_compressed_archives_are_read_below_a_path() {
    let archive = packed(&[
        ("README.md", "# hello"),
        ("./configs/", ""),
        ("./configs/us.yaml", "a: 1\n---\na: 2"),
        ("configs/eu.yml", "a: 1"),
        ("configs/x.json", "{"),
        ("configs/.x.yaml", "a: ["),
        ("other/x.yaml", "a: ["),
        ("link.yaml", "->configs/us.yaml"),
    ]);
    for bytes in [archive.clone(), gzip(&archive)] {
        let disk = OnDisk::of(&bytes);
        let source = disk.tar().yaml().path("configs");
        let expected = ["configs/eu.yml#0", "configs/us.yaml#0", "configs/us.yaml#1"];
        assert_eq!(names(&source).await, expected);
        let reading = source.read().await.unwrap();
        assert_eq!(*reading.revision.0, *crate::unpacked::sha256(&bytes));
    }
}

#[tokio::test]
async fn every_kind_of_bad_archive_is_one_clear_problem() {
    let good = ("a.yaml", "a: 1");
    let mut damaged = packed(&[good]);
    damaged[3] ^= 1;
    let mut longer = packed(&[good]);
    longer.extend(packed(&[good]));
    let mut compressed = gzip(&packed(&[good]));
    let crc = compressed.len() - 6;
    compressed[crc] ^= 1;
    let cases: [(Vec<u8>, &str); 10] = [
        (packed(&[good, ("/etc/b.yaml", "a: 1")]), "/etc/b.yaml in "),
        (
            packed(&[good, ("x/../../b.yaml", "a: 1")]),
            "leads out of the archive",
        ),
        (packed(&[good, ("b.yaml", "->a.yaml")]), "b.yaml at sha256:"),
        (packed(&[good, good]), "is there twice"),
        (damaged, "checksum mismatch"),
        (longer, "there are data after its end"),
        (compressed, "corrupt gzip stream"),
        (b"\x28\xb5\x2f\xfd....".to_vec(), "compressed with zstd"),
        (packed(&[]), "no YAML file"),
        (b"a: 1".to_vec(), "is cut off"),
    ];
    for (bytes, expected) in cases {
        let said = refused(bytes).await;
        assert!(
            said.contains(expected) && said.lines().count() == 1,
            "{expected}: {said}"
        );
    }
}

#[tokio::test]
async fn links_devices_and_sparse_files_are_refused() {
    let kinds = [
        (EntryType::Link, "is a hard link"),
        (EntryType::Char, "is no regular file"),
        (EntryType::Fifo, "is no regular file"),
        (EntryType::GNUSparse, "sparse"),
    ];
    for (kind, expected) in kinds {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_path("b.yaml").unwrap();
        header.set_entry_type(kind);
        header.set_size(0);
        header.as_gnu_mut().unwrap().set_real_size(0);
        header.set_cksum();
        archive.append(&header, &b""[..]).unwrap();
        let said = refused(archive.into_inner().unwrap()).await;
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[tokio::test]
async fn name_that_is_not_utf8_matters_below_the_path_only() {
    let mut archive = packed(&[("a/b.yaml", "a: 1"), ("c/d.yaml", "a: 1")]);
    let header = Header::from_byte_slice(&archive[1024..1536]);
    let mut header = header.clone();
    header.as_old_mut().name[2] = 0xff;
    header.set_cksum();
    archive[1024..1536].copy_from_slice(header.as_bytes());
    let disk = OnDisk::of(archive);
    assert_eq!(names(&disk.tar().yaml().path("a")).await.len(), 1);
    let said = refusal(&disk.tar().yaml()).await;
    assert!(said.contains("its name is not UTF-8"), "{said}");
}

#[tokio::test]
async fn archive_that_was_cut_off_anywhere_is_refused() {
    let whole = packed(&[("a.yaml", "a: 1"), ("b.yaml", "a: 1")]);
    let end = whole.len() - 1024;
    for len in (0..=end).step_by(128) {
        let said = refused(&whole[..len]).await;
        assert!(said.contains("is cut off"), "{len}: {said}");
    }
    let compressed = gzip(&whole);
    for len in 3..compressed.len() {
        let said = refused(&compressed[..len]).await;
        assert!(said.contains("is cut off"), "{len}: {said}");
    }
}

#[tokio::test]
async fn bombs_are_refused_within_the_limits() {
    let zeros = "0".repeat(1 << 20);
    let disk = OnDisk::of(gzip(&packed(&[("a.yaml", "a: 1"), ("zeros", &zeros)])));
    let limits = |packed, unpacked, entries| Limits {
        packed,
        unpacked,
        entries,
    };
    let with = |limits| disk.tar().limits(limits).yaml();
    assert_eq!(names(&with(limits(1 << 16, 2 << 20, 2))).await.len(), 1);
    let said = refusal(&with(limits(1 << 16, 1 << 20, 2))).await;
    assert!(
        said.contains("unpacks to more than 1048576 bytes"),
        "{said}"
    );
    let said = refusal(&with(limits(1 << 16, 2 << 20, 1))).await;
    assert!(
        said.contains("a.tar at sha256:") && said.contains(": has more than 1 entries;"),
        "{said}"
    );
    let said = refusal(&with(limits(100, 2 << 20, 2))).await;
    assert!(said.contains("bytes long, 100 are allowed"), "{said}");
}

#[tokio::test]
async fn files_that_are_too_long_together_are_refused() {
    let disk = OnDisk::of(packed(&[("b.yaml", "a: 100"), ("a.yaml", "a: 1")]));
    let limits = |bytes| prodspec_gen::format::Limits {
        bytes,
        ..Default::default()
    };
    let said = refusal(&disk.tar().yaml().limits(limits(5))).await;
    assert!(
        said.contains("b.yaml at sha256:") && said.contains("6 bytes long, 1 are allowed"),
        "{said}"
    );
    let said = refusal(&disk.tar().yaml().limits(limits(9))).await;
    assert!(
        said.lines().count() >= 1 && said.contains("too long together"),
        "{said}"
    );
    assert_eq!(names(&disk.tar().yaml().limits(limits(10))).await.len(), 2);
}

#[test]
fn r43_unchanged_archive_is_not_opened_again() {
    let disk = OnDisk::of(packed(&[("a.yaml", "a: 1")]));
    let mut tar = disk.tar();
    let mut look = |last: Option<&Revision>, at: u64| {
        tar.now = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(at));
        let snapshot = tar.look(last, &Stop::default()).unwrap();
        let revision = snapshot.map(|snapshot| snapshot.revision());
        (revision, tar.reads)
    };
    let later = 1 << 33;
    let (first, _) = look(None, 0);
    let last = first.as_ref();
    assert_eq!(look(last, 0), (None, 2), "its time does not tell yet");
    assert_eq!(look(last, later), (None, 3));
    assert_eq!(look(last, later), (None, 3));
    assert_eq!(
        look(None, later),
        (first.clone(), 4),
        "the files are needed"
    );
    write(&disk.path(), packed(&[("a.yaml", "a: 2")]));
    let (second, reads) = look(last, later);
    assert!(second.is_some() && second != first && reads == 5);
}

#[tokio::test]
async fn r44_damaged_archive_is_refused_at_each_reading_until_it_is_whole() {
    let whole = packed(&[("a.yaml", "a: 1")]);
    let disk = OnDisk::of(whole.clone());
    let mut tar = disk.tar();
    tar.now = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 33));
    let source = tar.yaml();
    let known = source.read().await.unwrap().revision;
    write(&disk.path(), &whole[..600]);
    for _ in 0..3 {
        let said = source.read_since(&known).await.unwrap_err().to_string();
        assert!(said.contains("is cut off"), "{said}");
    }
    write(&disk.path(), whole);
    let again = source.read_since(&known).await.unwrap();
    assert_eq!(again, Update::Same);
}

#[tokio::test]
async fn r43_archive_keeps_the_laws_of_sources() {
    let disk = OnDisk::of(packed(&[("a.yaml", "a: 1")]));
    let change = |files: &'static [(&'static str, &'static str)]| {
        let path = disk.path();
        move || write(&path, packed(files))
    };
    let changes = [
        change(&[("a.yaml", "a: 2\n---\na: 3")]),
        change(&[("a.yaml", "a: 2"), ("b/c.yaml", "a: 1")]),
        change(&[("b/c.yaml", "a: 1")]),
        change(&[("a.yaml", "a: 1")]),
    ];
    conformance::source(&disk.tar().yaml(), changes)
        .await
        .unwrap();
}

type Documents = BTreeMap<DocumentKey, Document>;

fn applied(
    source: &TreeSource<Tar, Yaml>,
    known: &mut Option<(Revision, Documents)>,
) -> Result<(Revision, Documents), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let nothing = (Revision("".into()), Documents::new());
    let (revision, documents) = known.as_ref().unwrap_or(&nothing);
    let update = match known {
        Some(_) => runtime.block_on(source.read_since(revision)),
        None => runtime.block_on(source.read()).map(Update::Whole),
    };
    let now = update.map_err(|problems| problems.to_string())?;
    let now = now.applied_to(revision, documents);
    *known = Some(now.clone());
    Ok(now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Each archive replaces the one before. Two readings of the same file differ in nothing.
    #[test]
    fn r43_delta_of_an_archive_equals_a_whole_reading(
        history in prop::collection::vec(prop::collection::btree_map(0_usize..4, 0_usize..5, 0..4), 1..8),
    ) {
        let paths = ["a.yaml", "a/b.yaml", "a-b.yaml", "c.yaml"];
        let texts = ["a: 1", "a: 2", "a: 1\n---\na: 2", "# none", "a: ["];
        let disk = OnDisk::of("");
        let kept = disk.tar().yaml();
        let mut known = None;
        for files in history {
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (paths[*path], texts[*text])).collect();
            write(&disk.path(), packed(&files));
            let fresh = applied(&disk.tar().yaml(), &mut None);
            prop_assert_eq!(applied(&kept, &mut known), fresh);
        }
    }
}
