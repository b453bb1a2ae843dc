//! Calendars and freezes as intent: the times at which pushes of some assets may start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Exception;
use crate::{filter::Filter, message::Message};

/// A calendar: pushes of intent to some assets start only while it is open.
///
/// ```
/// use prodspec_model::policy::CalendarPolicy;
///
/// let written = r#"{"zone": "America/New_York", "open": ["Mon-Fri 09:00-17:00"], "holidays": ["2026-12-25"], "of": {}}"#;
/// let weekdays: CalendarPolicy = serde_json::from_str(written)?;
/// # assert!(weekdays.of.is_all());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.CalendarPolicy")]
#[schemars(deny_unknown_fields)]
pub struct CalendarPolicy {
    /// The assets that wait for the calendar.
    pub of: Filter,
    /// The IANA name of the time zone, such as `Europe/Zurich`.
    pub zone: String,
    /// The weekly windows, such as `Mon-Fri 09:00-12:00, 13:00-17:00`. Empty: always open, except on holidays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// The dates on which no window opens, such as `2026-12-25`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holidays: Vec<String>,
    /// Holidays and freezes as the text of an iCalendar file (RFC 5545).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icalendar: Option<String>,
    /// Named exceptions, each with an end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Exception>,
}

impl Message for CalendarPolicy {
    const TYPE: &'static str = "prodspec.v1.CalendarPolicy";
}

/// A freeze: no push of intent to some assets starts in a period.
///
/// ```
/// use prodspec_model::policy::FreezePolicy;
///
/// let written = r#"{"of": {"domains": ["eu"]}, "from": "2026-12-18", "until": "2027-01-04", "why": "holiday traffic"}"#;
/// let peak: FreezePolicy = serde_json::from_str(written)?;
/// assert_eq!(peak.zone, "UTC");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.FreezePolicy")]
#[schemars(deny_unknown_fields)]
pub struct FreezePolicy {
    /// The assets that are frozen.
    pub of: Filter,
    /// The IANA name of the time zone in which `from` and `until` are written. Default: UTC.
    #[serde(default = "utc")]
    pub zone: String,
    /// The date or local time at which the freeze begins, such as `2026-12-18` or `2026-12-18T18:00`.
    pub from: String,
    /// The date or local time at which it is over.
    pub until: String,
    /// The reason, which everyone who waits is shown.
    pub why: String,
    /// Named exceptions, each with an end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Exception>,
}

fn utc() -> String {
    "UTC".to_owned()
}

impl Message for FreezePolicy {
    const TYPE: &'static str = "prodspec.v1.FreezePolicy";
}
