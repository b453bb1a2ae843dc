//! Small numbers for the names of failure domains, given as they are met. Apart, because two layers count by domain.

use std::sync::Arc;

/// How many names are found by their address. Targets share names, so that few are ever asked for.
const NEAR: usize = 256;

/// The domains met so far.
#[derive(Debug)]
pub(super) struct Interned<'a> {
    /// With their numbers, sorted.
    names: Vec<(&'a str, u32)>,
    /// Some of them, each at the place that its address says: to find it without reading it.
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
    /// The number of `name`: the next one if it is new.
    pub(super) fn number(&mut self, name: &'a Arc<str>) -> usize {
        let name: &'a str = name;
        // Names are at least 16 bytes apart, and often at like distances.
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

    /// Every domain with its number, by name.
    pub(super) fn by_name(&self) -> &[(&'a str, u32)] {
        &self.names
    }
}
