//! A small map of the machines of an execution.

use crate::definition::MachineNo;

/// Number of values up to which the list has no room to spare.
const EXACT: usize = 4;

/// What machines have, in the order of their numbers. In most executions that wait one or two have something, so this is a
/// list without room to spare.
#[derive(Debug)]
pub(super) struct ByMachine<T>(Vec<(MachineNo, T)>);

impl<T> Default for ByMachine<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByMachine<T> {
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.0.capacity()
    }

    fn place(&self, machine: MachineNo) -> Result<usize, usize> {
        self.0.binary_search_by_key(&machine, |(no, _)| *no)
    }

    pub(super) fn at(&self, machine: MachineNo) -> Option<&T> {
        let at = self.place(machine).ok()?;
        Some(&self.0.get(at)?.1)
    }

    pub(super) fn at_mut(&mut self, machine: MachineNo) -> Option<&mut T> {
        let at = self.place(machine).ok()?;
        Some(&mut self.0.get_mut(at)?.1)
    }

    /// Returns the value of a machine. `new` makes it if there is none.
    pub(super) fn at_or_insert(&mut self, machine: MachineNo, new: impl FnOnce() -> T) -> &mut T {
        let at = match self.place(machine) {
            Ok(at) => at,
            Err(at) => {
                if self.0.len() < EXACT {
                    self.0.reserve_exact(1);
                }
                self.0.insert(at, (machine, new()));
                at
            }
        };
        &mut self.0[at].1
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MachineNo, &T)> {
        self.0.iter().map(|(machine, value)| (*machine, value))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (MachineNo, &mut T)> {
        self.0.iter_mut().map(|(machine, value)| (*machine, value))
    }

    pub(super) fn machines(&self) -> impl Iterator<Item = MachineNo> {
        self.0.iter().map(|(machine, _)| *machine)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }
}
