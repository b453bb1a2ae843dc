//! Assigns small numbers to the names of failure domains, in the order in which they are met.
//!
//! Two layers count by domain and share this.

use std::sync::Arc;

/// Size of the table that finds names by their address. Targets share names, so there are few different addresses.
const NEAR: usize = 256;

/// The domains met so far, with their numbers.
#[derive(Debug)]
pub(super) struct Interned<'a> {
    /// All names with their numbers, sorted by name.
    names: Vec<(&'a str, u32)>,
    /// A cache of names, indexed by their address, to find a number without comparing strings.
    near: Vec<Option<(&'a str, u32)>>,
}

impl Default for Interned<'_> {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            near: vec![None; NEAR],
        }
    }
}

impl<'a> Interned<'a> {
    /// Returns the number of `name`. A new name gets the next number.
    pub(super) fn number(&mut self, name: &'a Arc<str>) -> usize {
        let name: &'a str = name;
        // Names are at least 16 bytes apart, and often at equal distances.
        let near = (name.as_ptr().addr() >> 4).wrapping_mul(0x9e37_79b1) >> 8 & (NEAR - 1);
        if let Some((known, number)) = self.near[near]
            && std::ptr::eq(known, name)
        {
            return number as usize;
        }
        let number = match self.names.binary_search_by(|(known, _)| (*known).cmp(name)) {
            Ok(at) => self.names[at].1,
            Err(at) => {
                let next = self.names.len() as u32;
                self.names.insert(at, (name, next));
                next
            }
        };
        self.near[near] = Some((name, number));
        number as usize
    }

    /// Returns every domain with its number, sorted by name.
    pub(super) fn by_name(&self) -> &[(&'a str, u32)] {
        &self.names
    }
}
