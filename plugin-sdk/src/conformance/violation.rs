//! A law that does not hold. Apart, because every suite reports with it.

/// A law that does not hold, and what was seen instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject} breaks the law `{law}`: {found}")]
pub struct Violation {
    subject: String,
    law: &'static str,
    found: String,
}

impl Violation {
    /// `subject` breaks `law`; `found` says how.
    pub(super) fn new(
        subject: impl ToString,
        law: &'static str,
        found: impl std::fmt::Debug,
    ) -> Self {
        Self {
            subject: subject.to_string(),
            law,
            found: format!("{found:?}"),
        }
    }

    /// The law that is broken.
    pub fn law(&self) -> &'static str {
        self.law
    }
}
