//! Small numbers for the names of failure domains, given as they are met. Apart, because two layers count by domain.

use std::sync::Arc;

/// The domains met so far.
#[derive(Debug, Default)]
pub(super) struct Interned<'a> {
    /// With their numbers, sorted.
    names: Vec<(&'a str, u32)>,
    /// What was asked last: neighbours by id often share a domain.
    last: Option<(&'a str, u32)>,
}

impl<'a> Interned<'a> {
    /// The number of `name`: the next one if it is new.
    pub(super) fn number(&mut self, name: &'a Arc<str>) -> usize {
        let name: &'a str = name;
        if let Some((last, number)) = self.last
            && (std::ptr::eq(last, name) || last == name)
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
        self.last = Some((name, number));
        number as usize
    }

    /// Every domain with its number, by name.
    pub(super) fn by_name(&self) -> &[(&'a str, u32)] {
        &self.names
    }
}
