//! Encoding of the writes of a group of commits. The end of SQLite's log that a power cut took away is completed
//! from it.

use control_plane_store::{Batch, BatchId, Key, KeyRange, Version, Write};

/// One commit of a group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) id: BatchId,
    pub(crate) version: Version,
    pub(crate) writes: Vec<Write>,
}

/// Upper bound of the size of the encoded batch, in bytes.
pub(crate) fn size(batch: &Batch) -> usize {
    let writes = batch.writes.iter().map(|write| 17 + write.bytes());
    32 + writes.sum::<usize>()
}

/// Appends the encoded commit to `out`.
pub(crate) fn append(out: &mut Vec<u8>, batch: &Batch, version: Version) {
    out.extend_from_slice(&batch.id.0.to_le_bytes());
    out.extend_from_slice(&version.0.to_le_bytes());
    out.extend_from_slice(&(batch.writes.len() as u64).to_le_bytes());
    for write in &batch.writes {
        match write {
            Write::Put(key, value) => {
                out.push(0);
                text(out, key.as_str().as_bytes());
                text(out, value);
            }
            Write::Delete(key) => {
                out.push(1);
                text(out, key.as_str().as_bytes());
            }
            Write::DeleteRange(KeyRange { start, end }) => {
                out.push(if end.is_some() { 2 } else { 3 });
                text(out, start.as_str().as_bytes());
                if let Some(end) = end {
                    text(out, end.as_str().as_bytes());
                }
            }
        }
    }
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Decodes the commits that [`append`] encoded. `None` means that the bytes are not an encoding.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Commit>> {
    let mut rest = Rest(bytes);
    let mut commits = Vec::new();
    while !rest.0.is_empty() {
        let id = BatchId(u128::from_le_bytes(rest.array()?));
        let version = Version(rest.number()?);
        let count = rest.number()?;
        let writes = (0..count).map(|_| rest.write()).collect::<Option<_>>()?;
        commits.push(Commit {
            id,
            version,
            writes,
        });
    }
    Some(commits)
}

struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'b [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }

    fn key(&mut self) -> Option<Key> {
        std::str::from_utf8(self.text()?).ok().map(Key::from)
    }

    fn write(&mut self) -> Option<Write> {
        let [kind] = self.array()?;
        Some(match kind {
            0 => Write::Put(self.key()?, self.text()?.to_vec().into()),
            1 => Write::Delete(self.key()?),
            2 => Write::DeleteRange(KeyRange::between(self.key()?, self.key()?)),
            3 => Write::DeleteRange(KeyRange::from_key(self.key()?)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_decoded_and_a_cut_is_detected() {
        let one = Batch::new().put("a", "1").delete("b").put("", "");
        let two = Batch::new()
            .delete_range(KeyRange::prefix("c/"))
            .delete_range(KeyRange::all());
        let mut bytes = Vec::new();
        append(&mut bytes, &one, Version(7));
        let first = bytes.len();
        append(&mut bytes, &two, Version(8));
        assert!(first <= size(&one) && bytes.len() <= size(&one) + size(&two));
        let commits = decode(&bytes).unwrap();
        let want = [(&one, 7), (&two, 8)].map(|(batch, version)| Commit {
            id: batch.id,
            version: Version(version),
            writes: batch.writes.clone(),
        });
        assert_eq!(commits, want);
        for end in 1..bytes.len() {
            assert_eq!(
                decode(&bytes[..end]).is_some(),
                end == first,
                "cut at {end}"
            );
        }
    }
}
