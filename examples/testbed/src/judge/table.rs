//! The table at the end of a demo: each step, its result, and the evidence. It is shared, so that it can be printed
//! however it ends.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::broken::Held;
use crate::voice::{say, say_all};

/// The rows of the table so far. Clones share the rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Table(Arc<Mutex<Vec<Row>>>);

#[derive(Debug, Clone)]
struct Row {
    step: String,
    held: Held<String>,
    took: Duration,
}

impl Table {
    /// Adds a row and prints it.
    pub(super) fn add(&self, step: &str, held: Held<String>, took: Duration) {
        let row = Row {
            step: step.into(),
            held,
            took,
        };
        say_all(row.lines());
        self.rows().push(row);
    }

    /// Prints the table. Returns true if all `expected` steps were played and held.
    pub(super) fn show(&self, expected: usize) -> bool {
        let rows = self.rows().clone();
        say("");
        say("step                          result    time  evidence");
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
    /// Returns the lines of the row: one, or more if the reason of a failure has several lines.
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
    fn table_holds_only_if_all_steps_were_played_and_held() {
        let table = Table::default();
        table.add("one", Ok("seen".into()), Duration::ZERO);
        assert!(table.show(1));
        assert!(!table.show(2), "one step was not played");
        table.add("two", Err(Broken("no".into())), Duration::ZERO);
        assert!(!table.show(2));
    }
}
