//! Moves of one pin that were asked for and that enforcement has not confirmed.

use plane_store::records::StandingPin;

/// The way of one pin, as far as it was asked for.
#[derive(Debug)]
pub(super) struct Moving {
    from: StandingPin,
    to: Vec<StandingPin>,
}

impl Moving {
    pub(super) fn from(from: StandingPin) -> Self {
        Self {
            from,
            to: Vec::new(),
        }
    }

    pub(super) fn then(&mut self, to: StandingPin) {
        self.to.push(to);
    }

    /// The move that enforcement confirms next.
    pub(super) fn next(&self) -> Option<StandingPin> {
        self.to.first().copied()
    }

    /// Whether enforcement has confirmed all moves.
    pub(super) fn is_over(&self) -> bool {
        self.to.is_empty()
    }

    /// Whether a move to another place than `pin` is not confirmed.
    pub(super) fn leaves(&self, pin: StandingPin) -> bool {
        self.to.iter().any(|other| *other != pin)
    }

    /// Enforcement has the pin at `pin`. A move before that one may have been confirmed to another group. But if the pin
    /// leaves a place and comes back to it, the news is from before it left.
    pub(super) fn heard(&mut self, pin: StandingPin) {
        let at = self.to.iter().position(|other| *other == pin);
        if let Some(at) = at.filter(|at| *at == 0 || pin != self.from) {
            self.to.drain(..=at);
            self.from = pin;
        }
    }
}
