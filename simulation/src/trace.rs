//! The events of a run in order: a digest of all events, and the last ones for people who read a violation.

use std::{collections::VecDeque, fmt};

use crate::executor::{Instant, NodeId};

/// Maximum number of events that are kept.
const KEPT: usize = 3000;

/// One event of the run.
#[derive(Debug, Clone, Copy)]
pub struct Noted {
    at: Instant,
    node: NodeId,
    what: &'static str,
    asset: Option<usize>,
    more: [u64; 2],
}

/// Digest of all events, and the last events themselves.
#[derive(Debug, Default)]
pub struct Trace {
    digest: u64,
    last: VecDeque<Noted>,
}

impl Trace {
    /// Adds an event. `more` holds numbers that distinguish events of one kind, such as a token.
    pub fn note(
        &mut self,
        at: Instant,
        node: NodeId,
        what: &'static str,
        asset: Option<usize>,
        more: [u64; 2],
    ) {
        let words = [
            at.0,
            u64::from(node.0),
            asset.map_or(u64::MAX, |a| a as u64),
        ];
        let text = what.bytes().map(u64::from);
        for word in words.into_iter().chain(more).chain(text) {
            self.digest = (self.digest ^ word)
                .rotate_left(23)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(Noted {
            at,
            node,
            what,
            asset,
            more,
        });
    }

    /// A digest of all events so far.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The last events, one per line.
    pub fn tail(&self) -> Vec<String> {
        self.last.iter().map(ToString::to_string).collect()
    }
}

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.0 as f64 / 1e9;
        write!(
            f,
            "{seconds:>12.6} node {:<3} {:<18}",
            self.node.0, self.what
        )?;
        if let Some(asset) = self.asset {
            write!(f, " asset/{asset:02}")?;
        }
        write!(f, " {} {}", self.more[0], self.more[1])
    }
}
