//! Tar archives from bytes: their documents are the files of the archive, and none from elsewhere.

use std::{collections::BTreeMap, io::Write, path::PathBuf};

use flate2::{Compression, write::GzEncoder};
use plugin_sdk::{Document, Problems, Reading, SourceOfTruth};
use plugins_archive::{Limits, Tar};
use prodspec_gen::format::{Format, Yaml};
use tar::{Archive, Builder, EntryType, Header};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{LIMITS, parsers::same, values::Shape};
use crate::target::{Broken, Class, Effort, Target, law};

/// Limits of archives, small enough to be reached.
pub(crate) const ARCHIVES: Limits = Limits {
    packed: 1 << 20,
    unpacked: 128 << 10,
    entries: 20,
};
/// The part of an archive that is read.
pub(crate) const PATH: &str = "configs";
/// The length of a block of an archive.
const BLOCK: usize = 512;

const WORDS: &[&str] = &[
    "configs/",
    "../",
    "/etc/passwd",
    "./",
    "\0",
    "ustar",
    ".yaml",
    "configs/.wh.a.yaml",
    "configs/.wh..wh..opq",
    "a: 1\n",
];

/// A directory in which archives are written, and a runtime that reads them.
#[derive(Debug)]
pub(crate) struct Disk {
    dir: Option<TempDir>,
    runtime: Option<Runtime>,
}

impl Disk {
    /// A directory of its own.
    pub(crate) fn new() -> Self {
        // In memory if possible: a file on disk that is written again and again may be flushed each time.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build();
        Self {
            dir: dir.ok(),
            runtime: runtime.ok(),
        }
    }

    /// The path of a file in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir
            .as_ref()
            .map(|dir| dir.path().join(name))
            .unwrap_or_default()
    }

    /// Reads a source.
    pub(crate) fn read(
        &self,
        source: &impl SourceOfTruth,
    ) -> Result<Result<Reading, Problems>, Broken> {
        match &self.runtime {
            Some(runtime) => Ok(runtime.block_on(source.read())),
            None => Err(disk("no runtime")),
        }
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Broken> {
        std::fs::write(self.path(name), bytes).map_err(disk)
    }
}

/// The failure of the machine that runs the target.
pub(crate) fn disk(error: impl std::fmt::Display) -> Broken {
    Broken {
        law: "the target's own files can be written",
        details: error.to_string(),
    }
}

/// The reader of tar archives.
#[derive(Debug)]
pub(crate) struct Tars(Disk);

impl Tars {
    /// A reader with a directory of its own.
    pub(crate) fn new() -> Self {
        Self(Disk::new())
    }

    fn read(&self, name: &str) -> Result<Result<Reading, Problems>, Broken> {
        let tar = Tar::new(self.0.path(name)).limits(ARCHIVES);
        self.0
            .read(&tar.yaml().limits(LIMITS).path(PATH).named("archive"))
    }
}

impl Target for Tars {
    fn name(&self) -> &'static str {
        "tar"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        vec![
            packed(&[
                ("configs/eu.yaml", "replicas: 2\n---\na: 1\n"),
                ("configs/us/a.yml", "a: [1, 2]\n"),
                ("README.md", "x"),
            ]),
            packed(&[
                ("./configs/", ""),
                ("configs/a.yaml", "a: 1\n"),
                ("configs/link.yaml", "->a.yaml"),
                ("configs/b.txt", ""),
            ]),
            packed(&[]),
            gzip(&packed(&[("configs/a.yaml", "a: 1\n")])),
        ]
    }

    fn words(&self) -> &'static [&'static str] {
        WORDS
    }

    fn mend(&self, input: &mut Vec<u8>) {
        mend(input);
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        self.0.write("archive.tar", input)?;
        self.0.write("archive.tar.gz", &gzip(input))?;
        let (plain, packed) = (self.read("archive.tar")?, self.read("archive.tar.gz")?);
        match (plain, packed) {
            (Ok(plain), packed) if !input.starts_with(b"\x1f\x8b") => {
                let packed = packed.map_err(|problems| Broken {
                    law: "an archive that is compressed is read the same",
                    details: problems.to_string(),
                })?;
                same(&plain.documents, &packed.documents)?;
                contained(&plain.documents)?;
                as_listed(input, &plain.documents)?;
                Ok(class(&plain.documents))
            }
            (Ok(plain), _) => {
                contained(&plain.documents)?;
                Ok(class(&plain.documents))
            }
            (Err(problems), _) => Ok(refused(&problems)),
        }
    }
}

/// The class of documents that were read.
pub(crate) fn class(documents: &[Document]) -> Class {
    let shape = Shape::of(documents.iter().map(Document::root));
    Class::accepted(&[&[documents.len()][..], &shape.numbers()].concat())
}

/// The class of problems.
pub(crate) fn refused(problems: &Problems) -> Class {
    let classes = problems
        .iter()
        .take(3)
        .map(|problem| Class::refused(&problem.message));
    classes.fold(Class::accepted(&[]), Class::and)
}

/// Checks that documents are from files beneath the path, as many as may be there.
pub(crate) fn contained(documents: &[Document]) -> Result<(), Broken> {
    for document in documents {
        let (file, _) = document.file();
        let parts: Vec<&str> = file.split('/').collect();
        let plain = !parts.iter().any(|part| matches!(*part, "" | "." | ".."));
        let ends = file.ends_with(".yaml") || file.ends_with(".yml");
        law(
            plain && ends && parts[0] == PATH,
            "documents are of files beneath the path",
            || file.to_owned(),
        )?;
    }
    let files = documents.chunk_by(|a, b| a.file().0 == b.file().0).count();
    law(
        files <= ARCHIVES.entries,
        "an archive has no more files than the limit",
        || files.to_string(),
    )
}

/// Checks that documents are those of the regular files that another reader of the archive lists.
pub(crate) fn as_listed(input: &[u8], documents: &[Document]) -> Result<(), Broken> {
    const LAW: &str = "the documents of an archive are those of its files";
    let mut found: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for document in documents {
        found
            .entry(document.file().0)
            .or_default()
            .push(document.root());
    }
    for (file, roots) in found {
        let Some(text) = content(input, file) else {
            return law(false, LAW, || format!("{file} is no regular file"));
        };
        let parsed = Yaml::parse(&text, &LIMITS);
        let same = parsed
            .as_ref()
            .is_ok_and(|parsed| parsed.iter().eq(roots.iter().copied()));
        law(same, LAW, || format!("{file}: {parsed:?}\nbut {roots:?}"))?;
    }
    Ok(())
}

/// The text of a regular file in an archive.
fn content(input: &[u8], file: &str) -> Option<String> {
    let mut archive = Archive::new(input);
    for entry in archive.entries().ok()? {
        let mut entry = entry.ok()?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let plain = path
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect::<Vec<_>>()
            .join("/");
        let regular =
            entry.header().entry_type().is_file() || entry.header().entry_type().is_contiguous();
        if plain == file && regular {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut entry, &mut text).ok()?;
            return Some(text);
        }
    }
    None
}

/// Computes the checksum of each block that looks like a header anew, and fills the last block.
pub(crate) fn mend(archive: &mut Vec<u8>) {
    if archive.starts_with(b"\x1f\x8b") {
        return;
    }
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    for block in archive
        .chunks_mut(BLOCK)
        .filter(|block| &block[257..262] == b"ustar")
    {
        let mut header = Header::new_old();
        header.as_mut_bytes().copy_from_slice(block);
        header.set_cksum();
        block.copy_from_slice(header.as_bytes());
    }
}

/// An archive: pairs of a path and a text. Texts that begin with an arrow are links, paths that end with a slash are
/// directories.
pub(crate) fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = Header::new_ustar();
        header.set_mode(0o644);
        let bytes = match text.strip_prefix("->") {
            Some(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_link_name(target).ok();
                ""
            }
            None => text,
        };
        if path.ends_with('/') {
            header.set_entry_type(EntryType::Directory);
        }
        header.set_size(bytes.len() as u64);
        archive
            .append_data(&mut header, path, bytes.as_bytes())
            .ok();
    }
    archive.into_inner().unwrap_or_default()
}

/// Bytes, compressed.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).ok();
    encoder.finish().unwrap_or_default()
}
