//! Names the incarnations that retention has to keep for the group.

use std::collections::BTreeSet;

use prodspec_model::{Incarnation, IncarnationNo};

use super::Kernel;

impl Kernel {
    /// Returns the incarnations that the group uses, which retention must spare.
    pub fn referenced(&self) -> Vec<IncarnationNo> {
        let live = self.live.iter();
        let rolled = live.clone().flat_map(|live| [live.from(), Some(live.to())]);
        let heads = rolled.flatten().chain(self.group.head());
        // The group of a train may have taken in no newer one.
        let heads = heads.chain([self.group.latest()]);
        let heads = heads.map(Incarnation::no);
        let was = live.flat_map(|live| {
            let moved = live.moved();
            moved.map(|(_, row)| row.was)
        });
        let pins = was.filter_map(|pin| pin.incarnation());
        let pins = pins.chain(self.pins.referenced());
        let all: BTreeSet<IncarnationNo> = heads.chain(pins).collect();
        all.into_iter().collect()
    }
}
