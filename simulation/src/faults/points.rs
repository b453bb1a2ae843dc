//! Crashes at numbered points instead of random ones: the points at which a process may die are counted in the order in
//! which they are passed, so that a test can try all of them.

use crate::executor::Instant;

/// The extent of a crash at a numbered point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// Only the process that passes the point dies. The store goes on.
    Process,
    /// Every process dies, and the store loses the writes that were not synced.
    Power,
}

/// The number of passed points, and the points with a crash.
#[derive(Debug, Clone)]
pub struct Points {
    /// Whether points are counted now.
    pub counting: bool,
    /// Number of points passed so far.
    pub passed: u64,
    /// Numbers of the points with a crash, counted from 0.
    pub deadly: Vec<u64>,
    /// Extent of the crashes at these points.
    pub crash: Crash,
    /// Time of the last crash at a point.
    pub crashed: Instant,
}

impl Default for Points {
    fn default() -> Self {
        Self {
            counting: false,
            passed: 0,
            deadly: Vec::new(),
            crash: Crash::Process,
            crashed: Instant::default(),
        }
    }
}

impl Points {
    /// Passes the next point. Returns the crash that happens there, if any.
    pub fn pass(&mut self, now: Instant) -> Option<Crash> {
        if !self.counting {
            return None;
        }
        let number = self.passed;
        self.passed += 1;
        let deadly = self.deadly.contains(&number);
        if deadly {
            self.crashed = now;
        }
        deadly.then_some(self.crash)
    }
}
