//! The digest over the contents of all files of a source. A change of one file costs the logarithm of their number.

use std::collections::{BTreeMap, BTreeSet};

use prodspec_model::Digest;

/// The digests of the names of all files, each with that of its content. Files whose names have digests with the same
/// first 12 bits are a group with a digest of its own. Which files there were before makes no difference.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    files: BTreeMap<Digest, Digest>,
    groups: BTreeMap<u16, Digest>,
    /// The groups that have changed since their digests were computed.
    changed: BTreeSet<u16>,
}

impl Contents {
    /// Adds a file, or replaces its content.
    pub(super) fn put(&mut self, name: Digest, content: Digest) {
        self.files.insert(name, content);
        self.changed.insert(group(&name));
    }

    pub(super) fn remove(&mut self, name: Digest) {
        self.files.remove(&name);
        self.changed.insert(group(&name));
    }

    /// The digests of the contents of all files, sorted by those of their names.
    pub(super) fn each(&self) -> impl Iterator<Item = &Digest> {
        self.files.values()
    }

    /// The digest over all names and contents.
    pub(super) fn digest(&mut self) -> Digest {
        for group in std::mem::take(&mut self.changed) {
            let files = self.files.range(first(group)..);
            let files = files.take_while(|(name, _)| self::group(name) == group);
            let bytes: Vec<u8> = files
                .flat_map(|(name, content)| [name.0, content.0])
                .flatten()
                .collect();
            match bytes.is_empty() {
                true => self.groups.remove(&group),
                false => self.groups.insert(group, Digest::of(&bytes)),
            };
        }
        let mut bytes = Vec::new();
        for (group, digest) in &self.groups {
            bytes.extend_from_slice(&group.to_be_bytes());
            bytes.extend_from_slice(&digest.0);
        }
        Digest::of(&bytes)
    }
}

/// The group of a file whose name has this digest.
fn group(name: &Digest) -> u16 {
    u16::from_be_bytes([name.0[0], name.0[1]]) >> 4
}

/// The lowest digest of a name in a group.
fn first(group: u16) -> Digest {
    let mut digest = Digest([0; 32]);
    digest.0[..2].copy_from_slice(&(group << 4).to_be_bytes());
    digest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn digest_depends_on_the_present_files_only(
            changes in prop::collection::vec((any::<u8>(), prop::option::of(0_u8..4), any::<bool>()), 0..200),
        ) {
            let mut contents = Contents::default();
            let mut files = BTreeMap::new();
            for (name, content, look) in changes {
                let name = Digest::of(&[name]);
                match content {
                    Some(content) => {
                        contents.put(name, Digest::of(&[content]));
                        files.insert(name, Digest::of(&[content]));
                    }
                    None => {
                        contents.remove(name);
                        files.remove(&name);
                    }
                }
                if look {
                    contents.digest();
                }
            }
            let mut anew = Contents::default();
            files.iter().for_each(|(name, content)| anew.put(*name, *content));
            let before = anew.digest();
            prop_assert_eq!(contents.digest(), before);
            if let Some((name, _)) = files.first_key_value() {
                anew.put(*name, Digest::of(b"other"));
                prop_assert_ne!(anew.digest(), before);
            }
        }
    }
}
