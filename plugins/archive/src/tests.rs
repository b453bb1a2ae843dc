//! Tests of archives that are written in memory.

mod images;
mod tars;

use flate2::{Compression, write::GzEncoder};
use plugin_sdk::{Document, SourceOfTruth};
use tar::{Builder, EntryType, Header};

/// An archive to write: pairs of a path and a text. Texts that begin with an arrow are links; paths that end with a slash
/// are directories.
fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = Header::new_ustar();
        // Not through `set_path`, which refuses what is tested here.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_mode(0o644);
        let (kind, bytes) = match text.strip_prefix("->") {
            Some(target) => {
                header.set_link_name(target).unwrap();
                (EntryType::Symlink, &b""[..])
            }
            None if path.ends_with('/') => (EntryType::Directory, &b""[..]),
            None => (EntryType::Regular, text.as_bytes()),
        };
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        archive.append(&header, bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

async fn names(source: &impl SourceOfTruth) -> Vec<String> {
    let reading = source.read().await.unwrap();
    reading.documents.iter().map(Document::name).collect()
}

/// The problems of a source without its name, which is always the same.
async fn refusal(source: &impl SourceOfTruth) -> String {
    match source.read().await {
        Ok(reading) => panic!("{reading:?}"),
        Err(problems) => problems.to_string(),
    }
}
