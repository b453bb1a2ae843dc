//! Calendars: iCalendar texts and weekly windows.

use annealing_checks::calendar::Calendar;
use jiff::Timestamp;

use crate::{
    seeds,
    target::{Broken, Class, Effort, Target, law},
};

/// The reader of calendars. The first line of an input is tried as weekly windows, too.
#[derive(Debug)]
pub(crate) struct Calendars;

const WORDS: &[&str] = &[
    "RRULE:FREQ=YEARLY;BYMONTH=12;BYDAY=-1MO\r\n",
    "DTSTART;VALUE=DATE:99991231\r\n",
    "DURATION:P9999999999W\r\n",
    "EXDATE:20261225\r\n",
    "UNTIL=00010101",
    "INTERVAL=4294967296",
    "COUNT=0",
    "TZID=Europe/Berlin",
    "TZID=../../etc/passwd",
    "BEGIN:VEVENT\r\n",
    "END:VEVENT\r\n",
    "Fri 18:00-04:00",
    "24:00",
    "20260229",
    "STATUS:CANCELLED\r\n",
];

impl Target for Calendars {
    fn name(&self) -> &'static str {
        "calendar"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let weekly = [
            "Mon-Fri 09:00-12:00, 13:00-17:00",
            "daily 00:00-24:00",
            "Fri 18:00-04:00",
        ];
        let weekly = weekly.map(|windows| windows.as_bytes().to_vec());
        seeds::calendars().into_iter().chain(weekly).collect()
    }

    fn words(&self) -> &'static [&'static str] {
        WORDS
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        let text = String::from_utf8_lossy(input);
        let windows = text.lines().next().unwrap_or_default();
        let weekly = class(&|| Calendar::builder("Europe/Berlin").weekly(windows).build())?;
        let dated = class(&|| Calendar::builder("Europe/Berlin").icalendar(&text).build())?;
        Ok(weekly.and(dated))
    }
}

/// Builds a calendar twice and compares.
///
/// # Errors
/// When the two differ.
pub(crate) fn class<E: std::fmt::Display>(
    build: &dyn Fn() -> Result<Calendar, E>,
) -> Result<Class, Broken> {
    const LAW: &str = "a calendar that is built again is open at the same times";
    match (build(), build()) {
        (Ok(first), Ok(second)) => {
            let mut opened = 0;
            for nth in -3..600_i64 {
                let Ok(time) = Timestamp::from_second(1_790_000_000 + nth * 100_003) else {
                    continue;
                };
                law(first.is_open(time) == second.is_open(time), LAW, || {
                    time.to_string()
                })?;
                opened += usize::from(first.is_open(time));
            }
            Ok(Class::accepted(&[opened]))
        }
        (Err(error), Err(_)) => Ok(Class::refused(&error.to_string())),
        (first, _) => {
            law(false, LAW, || format!("{}", first.is_ok())).map(|()| Class::accepted(&[]))
        }
    }
}
