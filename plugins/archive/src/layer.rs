//! Reads one tar archive, plain or compressed with gzip, completely or not at all.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use plugin_sdk::{Problem, Problems};
use prodspec_gen::tree::{Selection, Stop};
use tar::{Archive, Entry, EntryType};

use crate::{
    bounded::Bounded,
    files::{Layer, Limits, Node},
};

/// Begins the name of a file that removes another one from lower layers.
const WHITEOUT: &str = ".wh.";
/// The name of a file that empties its directory in lower layers.
const OPAQUE: &str = ".wh..wh..opq";
/// Compressions that are recognised in order to refuse them, by their first bytes.
const COMPRESSED: [(&[u8], &str); 3] = [
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
];

/// How to read an archive.
pub(crate) struct Reading<'r> {
    pub(crate) selection: &'r Selection,
    pub(crate) limits: &'r Limits,
    pub(crate) stop: &'r Stop,
    /// Whether the archive is a layer, whose whiteouts remove files of lower ones.
    pub(crate) whiteouts: bool,
}

impl Reading<'_> {
    /// Reads an archive.
    ///
    /// # Errors
    /// When it is damaged, cut off or too long, or has paths that lead out of it.
    pub(crate) fn read(&self, archive: &[u8]) -> Result<Layer, Problems> {
        for (start, name) in COMPRESSED {
            if archive.starts_with(start) {
                let message =
                    format!("is compressed with {name}, which is not supported; use gzip");
                return Err(Problem::new(message).into());
            }
        }
        match archive.starts_with(b"\x1f\x8b") {
            true => self.unpack(MultiGzDecoder::new(archive)),
            false => self.unpack(archive),
        }
    }

    fn unpack(&self, stream: impl Read) -> Result<Layer, Problems> {
        let mut bounded = Bounded::new(stream, self.limits.unpacked, self.stop);
        let mut archive = Archive::new(&mut bounded);
        let read = self.entries(&mut archive);
        // Without a block of zeros at its end, an archive was cut off between two files.
        let cut_off = bounded.at_end;
        let read = match read {
            Ok((_, problems)) if !problems.is_empty() => return Err(problems),
            Ok(_) if cut_off => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((layer, _)) => ends(&mut bounded).map(|()| layer),
            Err(error) => Err(error),
        };
        match read {
            Ok(layer) => Ok(layer),
            Err(_) if bounded.exceeded => {
                let most = self.limits.unpacked;
                let message = format!(
                    "unpacks to more than {most} bytes; make it smaller, or raise the limit"
                );
                Err(Problem::new(message).into())
            }
            Err(error) if cut_off || error.kind() == io::ErrorKind::UnexpectedEof => {
                let message = "is cut off; wait until it is written completely, or write it again";
                Err(Problem::new(message).into())
            }
            Err(error) => {
                let message = format!("is no intact tar archive: {error}; write it again");
                Err(Problem::new(message).into())
            }
        }
    }

    /// The entries that matter, and the problems of those that must not be in any archive.
    fn entries(&self, archive: &mut Archive<impl Read>) -> io::Result<(Layer, Problems)> {
        let (mut layer, mut problems) = (Layer::default(), Problems::none());
        let mut left = self.selection.bytes();
        for (nth, entry) in archive.entries()?.enumerate() {
            let mut entry = entry?;
            if nth >= self.limits.entries {
                problems.push(self.too_many());
                break;
            }
            let kind = entry.header().entry_type();
            if kind.is_pax_global_extensions() {
                continue;
            }
            let bytes = entry.path_bytes().into_owned();
            let path = match plain(&bytes) {
                Ok(path) => path,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            if std::str::from_utf8(&bytes).is_err() {
                layer.add(path, Node::Refused("its name is not UTF-8; rename it"));
                continue;
            }
            if self.whiteouts && whiteout(&path, &mut layer) {
                continue;
            }
            if kind.is_dir() || (is_file(kind) && bytes.ends_with(b"/")) {
                layer.directories.insert(path);
            } else if !is_file(kind) {
                layer.add(path, Node::Refused(refusal(kind)));
            } else if matches!(self.selection.takes(&path), Ok(false)) {
                layer.add(path, Node::Skipped);
            } else {
                let node = file(&mut entry, &mut left)?;
                layer.add(path, node);
            }
        }
        Ok((layer, problems))
    }

    fn too_many(&self) -> Problem {
        let most = self.limits.entries;
        Problem::new(format!(
            "has more than {most} entries; make it smaller, or raise the limit"
        ))
    }
}

/// Reads a file, if it is not longer than what is `left`.
fn file(entry: &mut Entry<'_, impl Read>, left: &mut u64) -> io::Result<Node> {
    let len = entry.size();
    let Some(rest) = left.checked_sub(len) else {
        return Ok(Node::Long(len));
    };
    *left = rest;
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    Ok(Node::File(bytes))
}

/// Notes what a whiteout removes. Returns false if the file is none.
fn whiteout(path: &str, layer: &mut Layer) -> bool {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some(removed) = name.strip_prefix(WHITEOUT) else {
        return false;
    };
    match (name, directory) {
        (OPAQUE, directory) => layer.emptied.push(directory.into()),
        (_, "") => layer.removed.push(removed.into()),
        (_, directory) => layer.removed.push(format!("{directory}/{removed}")),
    }
    true
}

/// Reads the rest of an archive, after the first block of its end. It consists of zeros only, and its compression tells
/// whether all bytes were intact.
fn ends(rest: &mut impl Read) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match rest.read(&mut buffer)? {
            0 => return Ok(()),
            read if buffer[..read].iter().all(|byte| *byte == 0) => {}
            _ => return Err(io::Error::other("there are data after its end")),
        }
    }
}

/// The path of an entry as text, without `.` and slashes at its ends.
fn plain(bytes: &[u8]) -> Result<String, Problem> {
    let shown = String::from_utf8_lossy(bytes);
    let refused = |message: &str| Problem::new(message).at(&*shown, 0, 0);
    if shown.starts_with('/') {
        return Err(refused(
            "is an absolute path; pack the files with paths that begin at their directory",
        ));
    }
    let parts = shown.split('/').filter(|part| !matches!(*part, "" | "."));
    let parts: Vec<&str> = parts.collect();
    match parts.contains(&"..") {
        true => Err(refused(
            "leads out of the archive with `..`; pack the files again without it",
        )),
        false => Ok(parts.join("/")),
    }
}

fn is_file(kind: EntryType) -> bool {
    kind.is_file() || kind.is_contiguous()
}

fn refusal(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Symlink => "is a symbolic link, which is not followed; pack a file",
        EntryType::Link => "is a hard link, which is not followed; pack a file",
        EntryType::GNUSparse => "is a sparse file, which is not supported; pack it without holes",
        _ => "is no regular file; remove it from the archive",
    }
}
