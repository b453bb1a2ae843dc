//! Errors of schedules: expressions and time zones that cannot be used.

/// An expression, a time zone or a deadline that a schedule cannot have.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of the expression cannot be read.
    #[error("cron expression `{expression}`, character {at}, in the {field}: {problem}")]
    Field {
        /// The whole expression, as it was given.
        expression: String,
        /// Name of the field, such as `hour`.
        field: &'static str,
        /// Position of the problem in the expression, in characters from 1.
        at: usize,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// The expression does not have five fields.
    #[error(
        "cron expression `{expression}`: {problem}; the fields are `minute hour day month weekday`"
    )]
    Fields {
        /// The whole expression, as it was given.
        expression: String,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// The expression names days that no year has, such as 30 February.
    #[error(
        "cron expression `{expression}` never fires: its months do not have its days; change the day or the month"
    )]
    Never {
        /// The whole expression, as it was given.
        expression: String,
    },
    /// The time zone does not exist.
    #[error("there is no time zone `{zone}`; {hint}")]
    Zone {
        /// Name of the unknown zone.
        zone: String,
        /// Advice for people: zones with the same last part of their name, or the form of a zone's name.
        hint: String,
        /// The error of the time zone database.
        source: jiff::Error,
    },
    /// A starting deadline of zero.
    #[error(
        "with a starting deadline of 0 s no slot starts; leave it out, or give one of a second or more"
    )]
    Deadline,
}
