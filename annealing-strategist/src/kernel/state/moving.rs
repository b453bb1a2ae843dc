//! Requested moves of one pin that enforcement has not reported yet.

use plugin_sdk::Pin;

/// The last reported place of a pin, and the moves requested since.
#[derive(Debug)]
pub(in crate::kernel) struct Moving {
    from: Pin,
    /// Requested moves that were not reported yet, oldest first.
    to: Vec<Pin>,
}

impl Moving {
    /// A pin at `from`, without a requested move.
    pub(in crate::kernel) fn from(from: Pin) -> Self {
        Self {
            from,
            to: Vec::new(),
        }
    }

    /// Adds a requested move to `to`.
    pub(in crate::kernel) fn then(&mut self, to: Pin) {
        self.to.push(to);
    }

    /// Returns the move that enforcement reports next.
    pub(in crate::kernel) fn next(&self) -> Option<Pin> {
        self.to.first().copied()
    }

    /// Whether enforcement has reported all moves.
    pub(in crate::kernel) fn is_over(&self) -> bool {
        self.to.is_empty()
    }

    /// Whether a requested move to a pin other than `pin` has not been reported yet.
    pub(in crate::kernel) fn leaves(&self, pin: Pin) -> bool {
        self.to.iter().any(|other| !other.same_place(&pin))
    }

    /// Takes in a report of the pin at `pin`: the move to `pin` and all earlier moves are over. Reports of earlier
    /// moves may have gone to another group, which had the asset meanwhile. If the pin leaves `pin` and later returns,
    /// the report is from before it left, and ends no move.
    pub(in crate::kernel) fn reported(&mut self, pin: Pin) {
        let at = self.to.iter().position(|other| other.same_place(&pin));
        if let Some(at) = at.filter(|at| *at == 0 || !pin.same_place(&self.from)) {
            self.to.drain(..=at);
            self.from = pin;
        }
    }
}
