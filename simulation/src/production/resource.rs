//! One resource: its content, the push that is being applied, and the guard that refuses old owners.

use super::Content;
use crate::{
    executor::Instant,
    intent::{Bad, Kind},
};

/// One resource of the simulated production.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Kind of the provider, such as guarded.
    pub kind: Kind,
    /// Current content; `None` if the resource does not exist.
    pub content: Option<Content>,
    /// Times at which the resource began (true) or ceased (false) to answer with errors, oldest first.
    pub errors: Vec<(Instant, bool)>,
    /// Greatest token and call number of all calls so far.
    pub heard: (u64, u32),
    /// Greatest token of all accepted pushes.
    pub accepted: u64,
    /// The push that is being applied, if any.
    pub applying: Option<Applying>,
    /// Pushes that were sent and have not arrived yet.
    pub sent: Vec<Push>,
    /// Time of the last manual change of this resource or of one of its consumers.
    pub hand_at: Option<Instant>,
    /// Time of the last manual change; `None` if a push took effect since.
    pub changed_by_hand: Option<Instant>,
    /// Content before the first manual change; `None` if a push took effect since.
    pub before_hand: Option<Content>,
    /// Start of the last diff, if there was any.
    pub looked_at: Option<Instant>,
    /// Until this time the resource is marked as another system's.
    pub foreign_until: Instant,
    /// Until this time a person works on the resource by hand, and diffs answer `InProgress`.
    pub busy_until: Instant,
    /// Kind and end of the wrong answers of diffs; `None` if diffs are correct.
    pub lies: Option<(Lie, Instant)>,
}

/// A kind of wrong answers of diffs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Diffs report a difference, whether there is one or not.
    Dirty,
    /// Diffs report no difference, whether there is one or not.
    Clean,
    /// Diffs report a difference in every other call.
    Flapping,
}

/// A push that was sent, or is being applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Push {
    /// Unique number of the push.
    pub number: u64,
    /// Fencing token of the owner that sent it.
    pub token: u64,
    /// Call number of the owner's request.
    pub n: u32,
    /// Time at which the plugin was called.
    pub started: Instant,
    /// Content to apply; `None` for a turndown.
    pub to: Option<Content>,
}

/// A push that has arrived and is being applied.
#[derive(Debug, Clone, Copy)]
pub struct Applying {
    /// The push that is applied.
    pub push: Push,
}

/// The error of a call with an old token, or with an old call number.
#[derive(Debug, Clone, Copy)]
pub struct Refused;

impl Resource {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            content: None,
            errors: Vec::new(),
            heard: (0, 0),
            accepted: 0,
            applying: None,
            sent: Vec::new(),
            hand_at: None,
            changed_by_hand: None,
            before_hand: None,
            looked_at: None,
            foreign_until: Instant::default(),
            busy_until: Instant::default(),
            lies: None,
        }
    }

    /// Checks the token and the number of a call, and remembers them. Advisory resources accept every call.
    pub fn hear(&mut self, token: u64, n: u32) -> Result<(), Refused> {
        if self.kind == Kind::Advisory {
            return Ok(());
        }
        if (token, n) < self.heard {
            return Err(Refused);
        }
        self.heard = (token, n);
        Ok(())
    }

    /// Replaces the content; `None` removes the resource.
    pub fn put(&mut self, now: Instant, content: Option<Content>) {
        self.content = content;
        let bad = self.serves_badly();
        if self.errors.last().is_some_and(|(_, last)| *last) != bad {
            self.errors.push((now, bad));
        }
    }

    /// Whether the resource answers with errors now.
    pub fn serves_badly(&self) -> bool {
        self.content.is_some_and(|there| there.bad != Bad::Not)
    }

    /// Whether the resource answered with errors at the time `at`.
    pub fn served_badly(&self, at: Instant) -> bool {
        let before = self.errors.iter().rev().find(|(since, _)| *since <= at);
        before.is_some_and(|(_, bad)| *bad)
    }

    /// Whether the resource has exactly this content and no push is being applied.
    pub fn has(&self, to: Option<Content>) -> bool {
        self.applying.is_none() && self.content == to
    }
}
