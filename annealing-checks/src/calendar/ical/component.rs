//! The components of an iCalendar text: calendars with events, and time zones and alarms, which mean nothing here.

use super::{
    Problem,
    content::{Property, unfolded},
};

/// A component with its properties, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Component {
    /// The number of the line with which it begins, from 1.
    pub(super) line: usize,
    /// The name in upper case.
    pub(super) name: String,
    pub(super) properties: Vec<Property>,
    pub(super) components: Vec<Component>,
}

/// Parses all calendars of a text. Also returns everything that is wrong, each problem with its line.
pub(super) fn parse(text: &str) -> (Vec<Component>, Vec<Problem>) {
    let mut parser = Parser::default();
    for (line, text) in unfolded(text) {
        let taken = Property::parse(line, &text).and_then(|property| parser.take(property));
        if let Err(why) = taken {
            let shown: String = text.chars().take(40).collect();
            parser.problems.push((line, format!("`{shown}` {why}")));
        }
    }
    parser.finish()
}

#[derive(Debug, Default)]
struct Parser {
    calendars: Vec<Component>,
    /// The components that have begun and not ended, outermost first.
    open: Vec<Component>,
    problems: Vec<Problem>,
}

impl Parser {
    fn take(&mut self, property: Property) -> Result<(), String> {
        match (&*property.name, self.open.last_mut()) {
            ("BEGIN", _) => self.begin(&property),
            ("END", _) => self.end(&property),
            (_, Some(component)) => {
                component.properties.push(property);
                Ok(())
            }
            (_, None) => Err("is outside of a calendar".into()),
        }
    }

    fn begin(&mut self, property: &Property) -> Result<(), String> {
        let name = property.value.trim().to_ascii_uppercase();
        let parent = self.open.last().map(|parent| parent.name.clone());
        let is_known = is_known(parent.as_deref(), &name);
        self.open.push(Component {
            line: property.line,
            name,
            properties: Vec::new(),
            components: Vec::new(),
        });
        match is_known {
            true => Ok(()),
            false => Err("is not supported here; remove the component".into()),
        }
    }

    fn end(&mut self, property: &Property) -> Result<(), String> {
        let name = property.value.trim();
        let ends = |open: &mut Component| open.name.eq_ignore_ascii_case(name);
        let ended = self.open.pop_if(ends);
        let ended = ended.ok_or("ends a component that has not begun, or not last")?;
        match self.open.last_mut() {
            Some(parent) => parent.components.push(ended),
            None => self.calendars.push(ended),
        }
        Ok(())
    }

    fn finish(mut self) -> (Vec<Component>, Vec<Problem>) {
        let open = self.open.iter();
        self.problems
            .extend(open.map(|Component { line, name, .. }| {
                let why = format!("BEGIN:{name} has no END:{name}; the text may be cut off");
                (*line, why)
            }));
        if self.calendars.is_empty() && self.problems.is_empty() {
            self.problems
                .push((1, "there is no BEGIN:VCALENDAR".into()));
        }
        (self.calendars, self.problems)
    }
}

/// Whether it is known what a component means in another one, or outside of all.
fn is_known(parent: Option<&str>, name: &str) -> bool {
    matches!(
        (parent, name),
        (None, "VCALENDAR")
            | (Some("VCALENDAR"), "VEVENT" | "VTIMEZONE")
            | (Some("VEVENT"), "VALARM")
            | (Some("VTIMEZONE"), "STANDARD" | "DAYLIGHT")
    )
}
