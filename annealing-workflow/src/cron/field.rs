//! One field of a cron expression: its text, and the set of values that it names.

/// What a field may contain.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) least: u8,
    pub(super) most: u8,
    /// Names of the values, beginning with the one of `least`.
    names: &'static [&'static str],
}

/// The fields, in the order of an expression.
pub(super) const FIELDS: [Field; 5] = [
    Field::new("minute", 0, 59, &[]),
    Field::new("hour", 0, 23, &[]),
    Field::new("day of the month", 1, 31, &[]),
    Field::new("month", 1, 12, &MONTHS),
    // 7 is Sunday too: ranges may end with it.
    Field::new("day of the week", 0, 7, &WEEKDAYS),
];
const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 8] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];

/// The values that a field names, and how it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Set {
    /// Bit n: the value n.
    pub(super) bits: u64,
    /// Whether the text begins with `*`.
    pub(super) star: bool,
}

/// A problem, with its position in the text of the field, in bytes from 0.
pub(super) type Problem = (usize, String);

impl Field {
    const fn new(name: &'static str, least: u8, most: u8, names: &'static [&'static str]) -> Self {
        Self {
            name,
            least,
            most,
            names,
        }
    }

    /// Parses a comma-separated list of values, ranges and steps.
    pub(super) fn parse(&self, text: &str) -> Result<Set, Problem> {
        let mut at = 0;
        let mut bits = 0;
        for item in text.split(',') {
            bits |= self.item(item, at)?;
            at += item.len() + 1;
        }
        Ok(Set {
            bits,
            star: text.starts_with('*'),
        })
    }

    /// Parses `*`, `a` or `a-b`, and a step behind it. `at` is the position of the item in the field.
    fn item(&self, item: &str, at: usize) -> Result<u64, Problem> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (least, most) = self.range(range, at)?;
        let step = match step {
            Some(step) => self.step(range, step, (least, most), at)?,
            None => 1,
        };
        Ok((least..=most)
            .step_by(step)
            .fold(0, |bits, value| bits | 1 << value))
    }

    fn range(&self, range: &str, at: usize) -> Result<(u8, u8), Problem> {
        if range == "*" {
            return Ok((self.least, self.last()));
        }
        let Some((from, to)) = range.split_once('-') else {
            let value = self.value(range, at)?;
            return Ok((value, value));
        };
        let least = self.value(from, at)?;
        let mut most = self.value(to, at + from.len() + 1)?;
        if self.is_weekday() && most == 0 && least > 0 {
            // `FRI-SUN`: the week ends with Sunday.
            most = 7;
        }
        match least <= most {
            true => Ok((least, most)),
            false => {
                let problem = format!(
                    "the range `{range}` ends before it begins; write two ranges, such as `{from}-{},{}-{to}`",
                    self.shown(self.last()),
                    self.shown(self.least),
                );
                Err((at, problem))
            }
        }
    }

    /// The last value, with Sunday only as the first.
    fn last(&self) -> u8 {
        self.most - u8::from(self.is_weekday())
    }

    fn is_weekday(&self) -> bool {
        self.most == 7
    }

    fn shown(&self, value: u8) -> String {
        let name = self.names.get(usize::from(value - self.least));
        name.map_or_else(|| value.to_string(), |name| (*name).to_owned())
    }

    fn step(
        &self,
        range: &str,
        step: &str,
        (least, most): (u8, u8),
        at: usize,
    ) -> Result<usize, Problem> {
        let place = at + range.len() + 1;
        let problem = |problem| Err((place, problem));
        if range != "*" && !range.contains('-') {
            let problem = format!(
                "a step needs a range; write `{range}-{}/{step}`, or `*/{step}`",
                self.most
            );
            return Err((at, problem));
        }
        match number(step) {
            Some(step @ 1..) if step <= most - least => Ok(step.into()),
            Some(0) => problem("a step is 1 or more".into()),
            Some(_) => problem(format!(
                "the step `{step}` leads out of `{range}` at once; write `{least}`, or a smaller step"
            )),
            None => problem(format!(
                "`{step}` is no step; write a number, such as `*/5`"
            )),
        }
    }

    fn value(&self, text: &str, at: usize) -> Result<u8, Problem> {
        let named = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text))
            .and_then(|nth| u8::try_from(nth).ok())
            .map(|nth| self.least + nth);
        let value = named.or_else(|| number(text));
        value
            .filter(|value| (self.least..=self.most).contains(value))
            .ok_or_else(|| (at, self.unreadable(text)))
    }

    fn unreadable(&self, text: &str) -> String {
        let (least, last) = (self.shown(self.least), self.shown(self.last()));
        let names = match self.names {
            [] => String::new(),
            _ => format!(", or {least} to {last}"),
        };
        let range = format!("values are {} to {}{names}", self.least, self.most);
        match text {
            "" => format!("a value is missing; {range}"),
            text if is_extension(text) => {
                format!("`{text}`: `L`, `W`, `#` and `?` are not supported; {range}")
            }
            text => format!("`{text}` is no value; {range}"),
        }
    }
}

/// Whether `text` is a word of other schedulers, such as `L`, `15W`, `FRI#2`.
fn is_extension(text: &str) -> bool {
    let ends = text.strip_suffix(['L', 'W']);
    text.contains(['#', '?'])
        || ends.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A number of at most three digits, without sign.
fn number(text: &str) -> Option<u8> {
    let digits = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
