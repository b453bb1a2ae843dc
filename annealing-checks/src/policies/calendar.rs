//! Calendars and freezes as policies.

use std::sync::Arc;

use plugin_sdk::CheckPlugin;
use prodspec_model::{
    Filter,
    policy::{CalendarPolicy, Exception, FreezePolicy},
};

use super::compiled::{CheckPolicy, Readers, Refused};

impl CheckPolicy for CalendarPolicy {
    fn of(&self) -> &Filter {
        &self.of
    }

    fn except(&self) -> &[Exception] {
        &self.except
    }

    #[cfg(feature = "calendar")]
    fn check(&self, name: &str, _: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
        use jiff::Timestamp;

        use crate::calendar::Calendar;

        let mut calendar = Calendar::builder(&self.zone).named(name);
        for windows in &self.open {
            calendar = calendar.weekly(windows);
        }
        for day in &self.holidays {
            calendar = calendar.holiday(day.as_str(), day);
        }
        if let Some(text) = &self.icalendar {
            calendar = calendar.icalendar(text);
        }
        let holiday = |text: &str| {
            let at = self.holidays.iter().position(|it| it == text);
            at.map_or_else(|| "holidays".to_owned(), |at| format!("holidays[{at}]"))
        };
        let calendar = calendar.build().map_err(|error| refused(&error, holiday))?;
        // Any time will do: a calendar that never opens has no windows at all.
        match calendar.next_open(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(Arc::new(calendar)),
            None => Err(Refused::one(
                "open",
                "never opens: the assets could never be pushed",
            )),
        }
    }

    #[cfg(not(feature = "calendar"))]
    fn check(&self, _: &str, _: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
        Err(without())
    }
}

impl CheckPolicy for FreezePolicy {
    fn of(&self) -> &Filter {
        &self.of
    }

    fn except(&self) -> &[Exception] {
        &self.except
    }

    #[cfg(feature = "calendar")]
    fn check(&self, name: &str, _: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
        use crate::calendar::Calendar;

        if self.why.trim().is_empty() {
            return Err(Refused::one(
                "why",
                "needs a reason, which everyone who waits is shown",
            ));
        }
        let freeze = Calendar::builder(&self.zone).named(name);
        let freeze = freeze.freeze(self.from.as_str(), self.until.as_str(), &self.why);
        match freeze.build() {
            Ok(freeze) => Ok(Arc::new(freeze)),
            Err(error) => Err(refused(&error, |text| match text == self.from {
                true => "from".to_owned(),
                false => "until".to_owned(),
            })),
        }
    }

    #[cfg(not(feature = "calendar"))]
    fn check(&self, _: &str, _: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
        Err(without())
    }
}

/// The field of a calendar or a freeze that an error is about. `of_time`: the field with a text that is no time.
#[cfg(feature = "calendar")]
fn refused(error: &crate::calendar::Error, of_time: impl Fn(&str) -> String) -> Vec<Refused> {
    use crate::calendar::Error;

    let field = match error {
        Error::Zone { .. } => "zone",
        Error::Window { .. } => "open",
        Error::ICalendar { .. } => "icalendar",
        Error::Freeze { .. } => "until",
        Error::Time { text, .. } => return Refused::one(&of_time(text), error),
    };
    Refused::one(field, error)
}

#[cfg(not(feature = "calendar"))]
fn without() -> Vec<Refused> {
    Refused::one(
        "zone",
        "this control plane was built without the feature `calendar`",
    )
}
