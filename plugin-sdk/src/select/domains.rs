//! The failure domains of a rollout's targets, as small numbers.

use std::{collections::BTreeMap, sync::Arc};

use super::Target;

/// Size of the table that finds lists of domains by their address. Targets share lists, so there are few addresses.
const NEAR: usize = 256;

/// The failure domains of a rollout's targets. A domain has a number: its index in [`names`](Self::names).
#[derive(Debug, Default)]
pub struct Domains {
    names: Vec<Arc<str>>,
    /// The lists of domains that occur, as numbers.
    lists: Vec<Box<[u32]>>,
    /// The index of each target's list in `lists`.
    of_targets: Vec<u32>,
}

impl Domains {
    pub(super) fn of(targets: &[Target]) -> Self {
        let mut met = Met::default();
        let of_targets = targets.iter().map(|target| met.list(&target.domains));
        let of_targets = of_targets.collect();
        let mut names: Vec<Arc<str>> = met
            .lists
            .iter()
            .flat_map(|list| list.iter().cloned())
            .collect();
        names.sort_unstable();
        names.dedup();
        let number = |name: &Arc<str>| names.binary_search(name).ok().map(|number| number as u32);
        let numbers = |list: &Arc<[Arc<str>]>| list.iter().filter_map(number).collect();
        let lists = met.lists.iter().map(|list| numbers(list)).collect();
        Self {
            lists,
            of_targets,
            names,
        }
    }

    /// Returns the names of all domains, sorted.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Returns the numbers of the domains of the target at an index, in the order of [`Target::domains`]. Empty: it
    /// names none.
    pub fn of_target(&self, index: u32) -> &[u32] {
        let list = self.of_targets.get(index as usize);
        let list = list.and_then(|list| self.lists.get(*list as usize));
        list.map_or(&[], |list| list)
    }

    /// Returns the number of the domain with which the target at an index is rolled out. See [`Target::domain`].
    pub fn first_of(&self, index: u32) -> Option<u32> {
        self.of_target(index).first().copied()
    }
}

/// The lists of domains met so far.
struct Met<'a> {
    lists: Vec<&'a Arc<[Arc<str>]>>,
    by_names: BTreeMap<&'a [Arc<str>], u32>,
    /// A cache of lists, indexed by their address, to find a list without comparing names.
    near: Vec<Option<(*const Arc<str>, u32)>>,
}

impl Default for Met<'_> {
    fn default() -> Self {
        Self {
            lists: Vec::new(),
            by_names: BTreeMap::new(),
            near: vec![None; NEAR],
        }
    }
}

impl<'a> Met<'a> {
    /// Returns the number of a list. A new list gets the next number.
    fn list(&mut self, list: &'a Arc<[Arc<str>]>) -> u32 {
        let address = list.as_ptr();
        // Lists are at least 16 bytes apart, and often at equal distances.
        let near = (address.addr() >> 4).wrapping_mul(0x9e37_79b1) >> 8 & (NEAR - 1);
        if let Some((known, number)) = self.near[near]
            && known == address
        {
            return number;
        }
        let next = self.lists.len() as u32;
        let number = *self.by_names.entry(list).or_insert(next);
        if number == next {
            self.lists.push(list);
        }
        self.near[near] = Some((address, number));
        number
    }
}

#[cfg(test)]
mod tests {
    use crate::{TargetList, testing::target};

    #[test]
    fn domains_are_numbered_by_name_whatever_the_order_of_targets() {
        let targets: TargetList = [
            target("job/a", &["us", "all"]),
            target("job/b", &[]),
            target("job/c", &["eu"]),
            target("job/d", &["us", "all"]),
        ]
        .into();
        let domains = targets.domains();
        assert_eq!(domains.names(), ["all", "eu", "us"].map(Into::into));
        let all: Vec<&[u32]> = (0..5).map(|index| domains.of_target(index)).collect();
        assert_eq!(all, [&[2, 0][..], &[], &[1], &[2, 0], &[]]);
        assert_eq!((domains.first_of(0), domains.first_of(1)), (Some(2), None));
    }
}
