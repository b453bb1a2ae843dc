//! Bounds of measured values, with their units.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::span;

/// A bound of a measured value: a number, a share such as `2%`, or a length of time such as `250ms`.
///
/// ```
/// use prodspec_model::policy::{Threshold, Unit};
///
/// assert_eq!(Threshold::from("250ms").value(), Ok((0.25, Unit::Seconds)));
/// assert_eq!(Threshold::from("2%").value(), Ok((0.02, Unit::Share)));
/// assert_eq!(Threshold::from(50.0).value(), Ok((50.0, Unit::Number)));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Threshold {
    /// A plain number, in the unit of the measured value.
    Number(f64),
    /// A text: a number with `%`, or with a unit of time.
    Text(String),
}

/// The unit in which a threshold is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// No unit: the number is that of the measured value.
    Number,
    /// Per cent. The value is between 0 and 1 for 0% to 100%.
    Share,
    /// A unit of time. The value is in seconds.
    Seconds,
}

impl Threshold {
    /// The number that measured values are compared with, and the unit in which it is written.
    ///
    /// # Errors
    /// The reason why the text is no threshold, and how to write one.
    pub fn value(&self) -> Result<(f64, Unit), String> {
        let text = match self {
            Self::Number(number) => return Ok((*number, Unit::Number)),
            Self::Text(text) => text.trim(),
        };
        let number = |text: &str| text.trim().parse().ok().filter(|it: &f64| it.is_finite());
        if let Some(share) = text.strip_suffix('%').and_then(number) {
            return Ok((share / 100.0, Unit::Share));
        }
        if let Ok(length) = span::parse(text) {
            return Ok((length.as_secs_f64(), Unit::Seconds));
        }
        let plain = number(text).map(|it| (it, Unit::Number));
        plain.ok_or_else(|| format!("`{text}` is no bound: write a number, 2% or 250ms"))
    }
}

impl From<f64> for Threshold {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Threshold {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
