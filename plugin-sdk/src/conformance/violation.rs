//! The error of the conformance suites.

/// A law that does not hold, with the subject that breaks it and the observed behaviour.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject} breaks the law `{law}`: {found}")]
pub struct Violation {
    subject: String,
    law: &'static str,
    found: String,
}

impl Violation {
    /// Reports that `subject` breaks `law`. `found` is the observed behaviour.
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

    /// The text of the broken law.
    pub fn law(&self) -> &'static str {
        self.law
    }
}
