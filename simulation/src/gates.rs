//! What the checks of a process are about, as both the checks and the judge know it: the gates, which are closed for a
//! while, and the key of serialized pushes.

use std::collections::BTreeMap;

use plugin_sdk::Cause;

use crate::executor::Instant;

/// Number of scopes into which the gates divide the assets, by asset number.
pub const SCOPES: usize = 3;

/// Number of the gate that applies to every cause.
pub const ALWAYS: usize = 0;
/// Number of the gate that applies to the cause `Intent` only.
pub const INTENT: usize = 1;
/// Number of keys by which gradual pushes are serialized.
const SERIAL: usize = 5;

/// Numbers of the gates that a push for this cause has to pass.
pub fn covering(cause: Option<Cause>) -> impl Iterator<Item = usize> {
    let intent = (cause == Some(Cause::Intent)).then_some(INTENT);
    [ALWAYS].into_iter().chain(intent)
}

/// Key of the serialization: gradual assets with the same key are pushed one at a time.
pub fn serial(at: usize) -> usize {
    at % SERIAL
}

/// The gates that are closed, by gate and scope, with the end of the delay.
#[derive(Debug, Default)]
pub struct Gates(BTreeMap<(usize, usize), Instant>);

impl Gates {
    /// Closes a gate for the assets of a scope.
    pub fn close(&mut self, gate: usize, scope: usize, until: Instant) {
        self.0.insert((gate, scope), until);
    }

    /// Opens all gates for all assets.
    pub fn open(&mut self) {
        self.0.clear();
    }

    /// Whether a gate delays an asset now.
    pub fn is_closed(&self, gate: usize, at: usize, now: Instant) -> bool {
        let until = self.0.get(&(gate, at % SCOPES));
        until.is_some_and(|until| now < *until)
    }
}
