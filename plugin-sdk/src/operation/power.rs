//! Powers: what an answer may contain. A function and its operation both declare them.

use prodspec_model::{SourceName, operation::Power};

use super::{Answer, SourceEdit};
use crate::document::{FieldPattern, PathError};

/// The powers that a function or an operation declares, ready to be compared with an answer.
///
/// ```
/// use plugin_sdk::{FieldEdit, FieldPath, operation::{Answer, Power, Powers}};
///
/// let powers = Powers::read(&[Power::edit("apps.yaml", "apps.*.cluster")])?;
/// let place = |field: &str| {
///     let path = FieldPath::keys(["apps", "shop", field]);
///     Answer::new().edit("apps.yaml", FieldEdit::add("apps.yaml#0", path, "eu-1"))
/// };
/// assert_eq!(powers.refuse(&place("cluster")), None);
/// let refused = powers.refuse(&place("owner")).unwrap();
/// assert_eq!(refused.to_string(), "it may not edit `apps.shop.owner` of `apps.yaml`");
/// # Ok::<(), plugin_sdk::operation::InvalidPower>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Powers {
    edits: Vec<(SourceName, FieldPattern)>,
    pause: bool,
    turndown: bool,
    starts: Vec<String>,
}

/// A power whose pattern of fields cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern of a power to edit `{}` cannot be read", source_name.0)]
pub struct InvalidPower {
    /// The source that the power is about.
    pub source_name: SourceName,
    /// The reason why the pattern cannot be read.
    #[source]
    pub why: PathError,
}

/// A part of an answer that no power allows.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAllowed {
    /// An edit of a field that no declared pattern covers.
    #[error("it may not edit `{}` of `{}`", .0.edit.path, .0.source.0)]
    Edit(Box<SourceEdit>),
    /// A pause of an asset.
    #[error("it may not pause assets")]
    Pause,
    /// The start of a workflow that is not declared.
    #[error("it may not start the workflow `{0}`")]
    Start(String),
}

impl Powers {
    /// Reads declared powers. A power of a kind that this version does not know allows nothing.
    ///
    /// # Errors
    /// When a pattern of fields cannot be read.
    pub fn read<'a>(powers: impl IntoIterator<Item = &'a Power>) -> Result<Self, InvalidPower> {
        let mut read = Self::default();
        for power in powers {
            match power {
                Power::Edit { source, under } => {
                    let pattern = under.parse().map_err(|why| InvalidPower {
                        source_name: source.clone(),
                        why,
                    })?;
                    read.edits.push((source.clone(), pattern));
                }
                Power::Pause => read.pause = true,
                Power::Turndown => read.turndown = true,
                Power::Start(workflow) => read.starts.push(workflow.clone()),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Whether edits may ask for the removal of resources.
    pub fn turndown(&self) -> bool {
        self.turndown
    }

    /// The first part of `answer` that no power allows. `None`: all of it is allowed.
    pub fn refuse(&self, answer: &Answer) -> Option<NotAllowed> {
        if let Some(edit) = answer.edits.iter().find(|edit| !self.allows(edit)) {
            return Some(NotAllowed::Edit(Box::new(edit.clone())));
        }
        if !self.pause && !answer.pauses.is_empty() {
            return Some(NotAllowed::Pause);
        }
        let mut starts = answer.starts.iter().map(|start| &start.workflow);
        let other = starts.find(|name| !self.starts.iter().any(|it| it == name.as_str()))?;
        Some(NotAllowed::Start(other.to_string()))
    }

    fn allows(&self, edit: &SourceEdit) -> bool {
        let mut declared = self.edits.iter();
        declared.any(|(source, under)| *source == edit.source && under.covers(&edit.edit.path))
    }
}
