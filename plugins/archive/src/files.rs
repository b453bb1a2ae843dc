//! The files of an archive, and of several ones that are laid on top of each other.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::Problem;
use prodspec_gen::tree::{Content, ContentId, Entry};

/// The limits of an archive, beside those of the files that are read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of the archive on disk, of all layers together, in bytes. 64 MiB by default.
    pub packed: u64,
    /// Maximum length of each archive or layer without compression, in bytes. 256 MiB by default.
    pub unpacked: u64,
    /// Maximum number of files, directories and links in each archive or layer. 100,000 by default.
    pub entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packed: 64 << 20,
            unpacked: 256 << 20,
            entries: 100_000,
        }
    }
}

/// What an archive has at a path, other than a directory.
#[derive(Debug)]
pub(crate) enum Node {
    /// A regular file that may be read.
    File(Vec<u8>),
    /// A regular file that was not kept: it, or all files together, are longer than allowed.
    Long(u64),
    /// A regular file that is not read.
    Skipped,
    /// Something that is refused: what it is, and what to do.
    Refused(&'static str),
}

/// The content of one archive, as far as it concerns the files to read.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) directories: BTreeSet<String>,
    /// Paths of lower layers that this layer removes, with everything beneath.
    pub(crate) removed: Vec<String>,
    /// Directories of lower layers that this layer empties.
    pub(crate) emptied: Vec<String>,
}

impl Layer {
    /// Adds what is at a path. A path that is there already is refused.
    pub(crate) fn add(&mut self, path: String, node: Node) {
        let twice = Node::Refused("is there twice in one archive; remove one");
        let node = match self.nodes.contains_key(&path) {
            true => twice,
            false => node,
        };
        self.nodes.insert(path, node);
    }
}

/// The files that a reader of all layers would see.
#[derive(Debug, Default)]
pub(crate) struct Files(BTreeMap<String, Node>);

impl Files {
    /// Lays a layer on top of those before.
    pub(crate) fn lay(&mut self, layer: Layer) {
        for path in &layer.removed {
            self.0.remove(path);
            self.empty(path);
        }
        layer.emptied.iter().for_each(|path| self.empty(path));
        for path in &layer.directories {
            self.0.remove(path);
        }
        for (path, node) in layer.nodes {
            self.empty(&path);
            self.0.insert(path, node);
        }
    }

    /// Removes everything beneath a directory. An empty path is the root.
    fn empty(&mut self, directory: &str) {
        if directory.is_empty() {
            self.0.clear();
            return;
        }
        let start = format!("{directory}/");
        let beneath = self.0.range(start.clone()..).map(|(path, _)| path);
        let beneath = beneath.take_while(|path| path.starts_with(&start));
        for path in beneath.cloned().collect::<Vec<_>>() {
            self.0.remove(&path);
        }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let entry = |(path, node): (&String, &Node)| match node {
            Node::File(bytes) => Some(Entry::file(path, id(bytes))),
            Node::Long(_) => Some(Entry::file(path, ContentId::from(&b"too long"[..]))),
            Node::Refused(message) => Some(Entry::refused(path, message)),
            Node::Skipped => None,
        };
        self.0.iter().filter_map(entry).collect()
    }

    pub(crate) fn read(&mut self, path: &str, cap: u64) -> Result<Content, Problem> {
        match self.0.get_mut(path) {
            Some(Node::File(bytes)) if bytes.len() as u64 > cap => {
                Ok(Content::TooLong(bytes.len() as u64))
            }
            Some(Node::File(bytes)) => Ok(Content::Bytes(std::mem::take(bytes))),
            Some(Node::Long(len)) if *len > cap => Ok(Content::TooLong(*len)),
            Some(Node::Long(_)) => Err(Problem::new(
                "the files of the archive are too long together; raise the limit of the source, or read a smaller path",
            )),
            _ => Err(Problem::new("is not in the archive; report this error")),
        }
    }
}

fn id(bytes: &[u8]) -> ContentId {
    ContentId::from(&prodspec_model::Digest::of(bytes).0[..])
}
