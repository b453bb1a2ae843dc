//! One resource: its content, what is being applied, and the guard that keeps old owners out.

use super::Content;
use crate::{
    executor::Instant,
    intent::{Bad, Kind},
};

/// One resource.
#[derive(Debug, Clone)]
pub struct Resource {
    /// How it is enforced.
    pub kind: Kind,
    /// What is there.
    pub content: Option<Content>,
    /// Since when it answers with errors, or not any more, oldest first.
    pub errors: Vec<(Instant, bool)>,
    /// The greatest token and call heard of.
    pub heard: (u64, u32),
    /// The greatest token of a push that was accepted.
    pub accepted: u64,
    /// What is being applied.
    pub applying: Option<Applying>,
    /// Pushes that were sent and have not arrived.
    pub sent: Vec<Push>,
    /// When it, or whom it depends on, was last changed by hand.
    pub hand_at: Option<Instant>,
    /// When a person last changed it by hand, if no push took effect since.
    pub changed_by_hand: Option<Instant>,
    /// What it had before somebody changed it by hand, until it is pushed again.
    pub before_hand: Option<Content>,
    /// When it was last compared.
    pub looked_at: Option<Instant>,
    /// Until when it is marked as another system's.
    pub foreign_until: Instant,
    /// Until when somebody works on it by hand.
    pub busy_until: Instant,
    /// Until when its plugin tells lies, and what.
    pub lies: Option<(Lie, Instant)>,
}

/// A lie about a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Something differs.
    Dirty,
    /// Nothing differs.
    Clean,
    /// Now this, now that.
    Flapping,
}

/// A push that is on its way or under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Push {
    /// Which one.
    pub number: u64,
    /// Whose.
    pub token: u64,
    /// The call.
    pub n: u32,
    /// When it was begun.
    pub started: Instant,
    /// What is wanted; nothing for a turndown.
    pub to: Option<Content>,
}

/// A push that has arrived.
#[derive(Debug, Clone, Copy)]
pub struct Applying {
    /// Which one.
    pub push: Push,
}

/// An old owner, or an old call.
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

    /// Hears of a call. Advisory resources let everybody in.
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

    /// Puts a content there.
    pub fn put(&mut self, now: Instant, content: Option<Content>) {
        self.content = content;
        let bad = self.serves_badly();
        if self.errors.last().is_some_and(|(_, last)| *last) != bad {
            self.errors.push((now, bad));
        }
    }

    /// Whether it answers with errors.
    pub fn serves_badly(&self) -> bool {
        self.content.is_some_and(|there| there.bad != Bad::Not)
    }

    /// Whether it answered with errors at some time.
    pub fn served_badly(&self, at: Instant) -> bool {
        let before = self.errors.iter().rev().find(|(since, _)| *since <= at);
        before.is_some_and(|(_, bad)| *bad)
    }

    /// Whether this very content is there, and nothing is being put there.
    pub fn has(&self, to: Option<Content>) -> bool {
        self.applying.is_none() && self.content == to
    }
}
