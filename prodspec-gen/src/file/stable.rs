//! Reading a file as a whole or not at all, with a cap before the first byte is kept.

use std::{fs, io::Read, path::Path, time::SystemTime};

use plugin_sdk::Problem;

const TRIES: u32 = 5;

/// What identifies a state of a file from outside.
#[derive(PartialEq)]
struct Seen {
    len: u64,
    modified: Option<SystemTime>,
}

impl Seen {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}

/// The bytes of the file at `path`, the same before and after they were read.
pub(super) fn read(path: &Path, cap: u64) -> Result<Vec<u8>, Problem> {
    for _ in 0..TRIES {
        match once(path, cap) {
            Ok(Some(bytes)) => return Ok(bytes),
            Ok(None) => {}
            Err(problem) => return Err(problem.at(path.display().to_string(), 0, 0)),
        }
    }
    let message = "the file changes while it is being read; it is read again when it is quiet";
    Err(Problem::new(message).at(path.display().to_string(), 0, 0))
}

/// `None`: the file changed meanwhile.
fn once(path: &Path, cap: u64) -> Result<Option<Vec<u8>>, Problem> {
    let cannot = |error| Problem::new(format!("cannot be read: {error}"));
    let file = fs::File::open(path).map_err(cannot)?;
    let before = Seen::of(&file.metadata().map_err(cannot)?);
    if before.len > cap {
        let message = format!("{} bytes long, {cap} are allowed; split it up", before.len);
        return Err(Problem::new(message));
    }
    let mut bytes = Vec::new();
    let read = (&file)
        .take(cap + 1)
        .read_to_end(&mut bytes)
        .map_err(cannot)?;
    let after = Seen::of(&file.metadata().map_err(cannot)?);
    let named = Seen::of(&fs::metadata(path).map_err(cannot)?);
    let whole = before == after && before == named && before.len == read as u64;
    Ok(whole.then_some(bytes))
}
