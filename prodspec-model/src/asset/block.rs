//! The bytes of an asset: a header of 52 bytes, the canonical JSON, the provenance.
//!
//! ```text
//! 0   digest of the JSON (32)
//! 32  total length (u32), offset of id, payload, type and provenance from 52 (4 x u32)   little-endian
//! 52  JSON, then provenance JSON
//! ```
//! The digest comes first so that hashing a tree node and comparing assets read one cache line.

use std::sync::Arc;

use crate::{digest::Digest, id::AssetId};

const HEADER: usize = 52;

/// The bytes of one asset, as a slice of a shared buffer. Cheap to clone.
#[derive(Clone)]
pub struct Block {
    owner: Arc<Vec<u8>>,
    start: usize,
}

/// The error for bytes that are not a valid block of an asset. The text says which check failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("damaged asset block: {0}; restore the store from a backup")]
pub struct Damaged(pub(crate) &'static str);

/// The offsets, in bytes, at which the parts of an asset start in its canonical JSON.
pub(super) struct Layout {
    pub(super) id: usize,
    pub(super) payload: usize,
    pub(super) type_name: usize,
}

impl Block {
    pub(super) fn encode(json: &[u8], provenance: &[u8], layout: &Layout) -> Self {
        let mut bytes = Vec::with_capacity(HEADER + json.len() + provenance.len());
        bytes.extend_from_slice(&Digest::of(json).0);
        let total = HEADER + json.len() + provenance.len();
        for number in [
            total,
            layout.id,
            layout.payload,
            layout.type_name,
            json.len(),
        ] {
            // The builder checks that an asset has at most `MAX_BYTES`. Its provenance is far below 4 GiB.
            bytes.extend_from_slice(&(number as u32).to_le_bytes());
        }
        bytes.extend_from_slice(json);
        bytes.extend_from_slice(provenance);
        Self {
            owner: Arc::new(bytes),
            start: 0,
        }
    }

    /// The block that starts at `start` of a shared buffer.
    pub(crate) fn at(owner: Arc<Vec<u8>>, start: usize) -> Self {
        Self { owner, start }
    }

    /// All bytes of the block, header included.
    pub fn bytes(&self) -> &[u8] {
        let start = self.start;
        &self.owner[start..start + Self::number(&self.owner[start..], 0)]
    }

    /// The length in bytes of the block at the start of `bytes`. `None`: `bytes` is shorter than a header.
    pub(crate) fn length_at(bytes: &[u8]) -> Option<usize> {
        (bytes.len() >= HEADER).then(|| Self::number(bytes, 0))
    }

    pub(crate) fn digest(&self) -> Digest {
        Self::digest_at(&self.owner[self.start..])
    }

    /// The digest in the first 32 bytes of a block.
    pub(crate) fn digest_at(bytes: &[u8]) -> Digest {
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[..32]);
        Digest(digest)
    }

    fn number(bytes: &[u8], nth: usize) -> usize {
        let at = 32 + 4 * nth;
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
    }

    fn part(&self, from: usize, to: usize) -> &str {
        let bytes = &self.owner[self.start + HEADER + from..self.start + HEADER + to];
        // Invariant: the block was built from valid UTF-8, or `check` has verified it, with all parts on character
        // boundaries.
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    fn offset(&self, nth: usize) -> usize {
        Self::number(&self.owner[self.start..], nth)
    }

    /// The canonical JSON as bytes, without a UTF-8 check.
    pub(super) fn json_bytes(&self) -> &[u8] {
        let start = self.start + HEADER;
        &self.owner[start..start + self.offset(4)]
    }

    pub(super) fn json(&self) -> &str {
        self.part(0, self.offset(4))
    }

    pub(super) fn addons(&self) -> &str {
        self.part(r#"{"addons":"#.len(), self.offset(1) - r#","id":""#.len())
    }

    pub(super) fn id(&self) -> &str {
        self.part(self.offset(1), self.offset(2) - r#"","payload":"#.len())
    }

    pub(super) fn payload(&self) -> &str {
        self.part(self.offset(2), self.offset(3) - r#","type":""#.len())
    }

    pub(super) fn type_name(&self) -> &str {
        self.part(self.offset(3), self.offset(4) - r#""}"#.len())
    }

    pub(super) fn provenance(&self) -> &str {
        self.part(self.offset(4), self.offset(0) - HEADER)
    }

    /// Checks everything that the accessors rely on: lengths, UTF-8, the digest, the keys between the parts, the id.
    pub(super) fn check(&self) -> Result<(), Damaged> {
        let bytes = self
            .owner
            .get(self.start..)
            .ok_or(Damaged("starts after the end of its buffer"))?;
        let total = Self::length_at(bytes).ok_or(Damaged("shorter than its header"))?;
        let [id, payload, type_name, json] = [1, 2, 3, 4].map(|nth| Self::number(bytes, nth));
        let ordered =
            17 <= id && id + 13 <= payload && payload + 9 <= type_name && type_name + 2 <= json;
        if total > bytes.len() || !ordered || HEADER + json > total {
            return Err(Damaged("the lengths in the header contradict each other"));
        }
        let text = std::str::from_utf8(&bytes[HEADER..total]).map_err(|_| Damaged("not UTF-8"))?;
        if Digest::of(&text.as_bytes()[..json]) != Self::digest_at(bytes) {
            return Err(Damaged("content does not match its digest"));
        }
        let boundary = |at: usize| text.is_char_boundary(at);
        let marks = text.starts_with(r#"{"addons":"#)
            && [
                id - 7,
                id,
                payload - 12,
                payload,
                type_name - 9,
                type_name,
                json,
            ]
            .into_iter()
            .all(boundary)
            && &text[id - 7..id] == r#","id":""#
            && &text[payload - 12..payload] == r#"","payload":"#
            && &text[type_name - 9..type_name] == r#","type":""#;
        if !marks || AssetId::validate(self.id()).is_err() {
            return Err(Damaged("not an asset"));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block")
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}
