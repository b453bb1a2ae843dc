//! Tests of calendars. Each file has one topic; the calendars and requests that several of them need are here.

mod clock_changes;
mod icalendar;
mod oracle;
mod search;
mod verdicts;
mod windows;

use futures::executor::block_on;
use jiff::{Timestamp, civil::DateTime};
use plugin_sdk::{CheckPlugin, CheckRequest, Verdict, testing};

use crate::calendar::Calendar;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn local(zone: &str, text: &str) -> Timestamp {
    let civil: DateTime = text.parse().unwrap();
    civil.in_tz(zone).unwrap().timestamp()
}

fn calendar(zone: &str, windows: &str) -> Calendar {
    Calendar::builder(zone).weekly(windows).build().unwrap()
}

fn request(now: Timestamp) -> CheckRequest {
    let mut request = testing::check_request(&testing::asset("job/eu"));
    request.now = now;
    request
}

fn check(calendar: &Calendar, request: CheckRequest) -> Verdict {
    block_on(calendar.check(request)).unwrap()
}
