//! The steps of an execution, by machine.

use super::state::Step;
use crate::definition::MachineNo;

/// Number of steps up to which the list has no room to spare.
const EXACT: usize = 4;

/// The machines whose first action has begun, in the order of their numbers. Most executions that wait have begun one or
/// two, so this is a list without room to spare.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<(MachineNo, Step)>);

impl Steps {
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.0.capacity()
    }

    fn place(&self, machine: MachineNo) -> Result<usize, usize> {
        self.0.binary_search_by_key(&machine, |(no, _)| *no)
    }

    pub(super) fn get(&self, machine: MachineNo) -> Option<&Step> {
        let at = self.place(machine).ok()?;
        Some(&self.0.get(at)?.1)
    }

    pub(super) fn get_mut(&mut self, machine: MachineNo) -> Option<&mut Step> {
        let at = self.place(machine).ok()?;
        Some(&mut self.0.get_mut(at)?.1)
    }

    /// Returns the step of a machine. `new` makes it if it has not begun.
    pub(super) fn get_or_insert_with(
        &mut self,
        machine: MachineNo,
        new: impl FnOnce() -> Step,
    ) -> &mut Step {
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

    pub(super) fn iter(&self) -> impl Iterator<Item = (MachineNo, &Step)> {
        self.0.iter().map(|(machine, step)| (*machine, step))
    }

    pub(super) fn machines(&self) -> impl Iterator<Item = MachineNo> {
        self.0.iter().map(|(machine, _)| *machine)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Step> {
        self.0.iter().map(|(_, step)| step)
    }
}
