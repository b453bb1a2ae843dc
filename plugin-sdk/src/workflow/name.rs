//! Names of machines, states and workflows: short texts that fit into record keys, commands and log lines.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Maximum length of a name, in bytes.
pub const MAX_NAME: usize = 100;

/// A text that cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` cannot be the name of a {of}; use 1 to {MAX_NAME} letters, digits, hyphens, dots and underscores, with a letter or digit first"
)]
pub struct InvalidName {
    /// The kind of thing that should get the name, such as `machine`.
    pub of: &'static str,
    /// The text, at most its first 100 characters.
    pub text: String,
}

fn check(of: &'static str, text: &str) -> Result<(), InvalidName> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let starts = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    match starts && text.len() <= MAX_NAME && text.bytes().all(allowed) {
        true => Ok(()),
        false => Err(InvalidName {
            of,
            text: text.chars().take(MAX_NAME).collect(),
        }),
    }
}

/// Defines a type of names. `$of` is the word for the named thing in error messages.
macro_rules! names {
    ($($(#[$attribute:meta])* $name:ident: $of:literal,)*) => {$(
        $(#[$attribute])*
        ///
        /// 1 to 100 letters, digits, hyphens, dots and underscores, with a letter or digit first. A name that is made
        /// from a literal with `From` is checked when the workflow is built.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Arc<str>);

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl $name {
            /// Checks a text and makes it a name.
            ///
            /// # Errors
            /// When the text is empty, longer than 100 bytes, or has other characters.
            pub fn new(text: &str) -> Result<Self, InvalidName> {
                let name = Self::from(text);
                name.check()?;
                Ok(name)
            }

            /// Checks a name that was made with `From`.
            ///
            /// # Errors
            /// As [`new`](Self::new).
            pub fn check(&self) -> Result<(), InvalidName> {
                check($of, &self.0)
            }

            /// The name as a text, as it is stored and shown.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<&$name> for $name {
            fn from(name: &$name) -> Self {
                name.clone()
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(&text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// The name of a machine, unique in its workflow.
    MachineName: "machine",
    /// The name of a state of a machine, and of an outcome of an action.
    StateName: "state",
    /// The name of a workflow, unique in its partition.
    WorkflowName: "workflow",
}

impl StateName {
    /// The first state of machines with one action.
    pub const WAITING: &'static str = "waiting";
    /// The outcome of an action that did what it was for.
    pub const DONE: &'static str = "done";
    /// The outcome of an action that failed and is not tried again. An execution with a machine that rests here failed,
    /// unless it ended well.
    pub const FAILED: &'static str = "failed";
    /// The outcome of an action that reached its time or count limit. An execution with a machine that rests here
    /// failed, unless it ended well.
    pub const EXPIRED: &'static str = "expired";
    /// The outcome of an edit with a field that was changed by another program or a person before it was settled.
    pub const OVERWRITTEN: &'static str = "overwritten";
    /// The outcome of an edit whose rollout went back or was stopped.
    pub const ROLLED_BACK: &'static str = "rolled_back";
}
