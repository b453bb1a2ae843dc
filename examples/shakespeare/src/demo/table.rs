//! The table at the end: each step, what was looked at, and whether it held. Shared, so that it can be shown however the
//! demo ends.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::broken::Held;
use crate::voice::{say, say_all};

/// The rows so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Table(Arc<Mutex<Vec<Row>>>);

#[derive(Debug, Clone)]
struct Row {
    step: String,
    held: Held<String>,
    took: Duration,
}

impl Table {
    /// Adds a row and says it.
    pub(super) fn add(&self, step: &str, held: Held<String>, took: Duration) {
        let row = Row {
            step: step.into(),
            held,
            took,
        };
        say_all(row.lines());
        self.rows().push(row);
    }

    /// Shows all of it. Says whether everything held.
    pub(super) fn show(&self, expected: usize) -> bool {
        let rows = self.rows().clone();
        say("");
        say("step                          result    time  looked at");
        for row in &rows {
            say_all(row.lines());
        }
        let good = rows.iter().filter(|row| row.held.is_ok()).count();
        say(format_args!("{good} of {expected} steps held"));
        good == expected && rows.len() == expected
    }

    fn rows(&self) -> MutexGuard<'_, Vec<Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    /// One line, and one for each further line of what does not hold: of what a command said, say.
    fn lines(&self) -> Vec<String> {
        let (result, words) = match &self.held {
            Ok(evidence) => ("held", evidence.clone()),
            Err(why) => ("BROKEN", why.to_string()),
        };
        let took = self.took.as_secs_f64();
        let mut words = words.lines();
        let first = words.next().unwrap_or_default();
        let first = format!("{:<29} {result:<7} {took:5.1} s  {first}", self.step);
        let rest = words.map(|line| format!("    {line}"));
        std::iter::once(first).chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::broken::Broken, *};

    #[test]
    fn all_steps_must_have_been_played_and_held() {
        let table = Table::default();
        table.add("one", Ok("seen".into()), Duration::ZERO);
        assert!(table.show(1));
        assert!(!table.show(2), "one was not played");
        table.add("two", Err(Broken("no".into())), Duration::ZERO);
        assert!(!table.show(2));
    }
}
