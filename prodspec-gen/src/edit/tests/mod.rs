//! Tests of edits: tables for each rule, and laws for random texts and edits.

mod blocks;
mod flat;
mod flat_laws;
mod generator;
mod law;
mod laws;
mod named;
mod refusals;
mod samples;
mod scalars;

use serde_json::Value;

use super::*;

type Function = fn(&str, &[Edit], &Limits) -> Result<String, Refused>;

/// The value of a field that is not there.
pub(super) const ABSENT: &str = "absent";

/// An edit of the first document. `was` and `to` are JSON, or [`ABSENT`].
pub(super) fn change(path: &str, was: &str, to: &str) -> Edit {
    let value = |json: &str| match json {
        ABSENT => None,
        json => Some(serde_json::from_str::<Value>(json).unwrap()),
    };
    Edit {
        document: 0,
        path: path.parse().unwrap(),
        was: value(was),
        to: value(to),
    }
}

/// The parts of a case, which is written as `text¦path¦was¦to¦expected`.
pub(super) fn parts(case: &str) -> [&str; 5] {
    let parts: Vec<&str> = case.split('¦').collect();
    parts.try_into().unwrap()
}

/// Checks texts after edits, each written as `before¦path¦was¦to¦after`.
pub(super) fn check(edit: Function, cases: &[&str]) {
    for case in cases {
        let [before, path, was, to, after] = parts(case);
        let edited = edit(before, &[change(path, was, to)], &Limits::default());
        let shown = edited.as_deref().map_err(ToString::to_string);
        assert_eq!(shown, Ok(after), "{path}: {to}\n{before}");
    }
}
