//! House rules as tests, so that reviewers need not repeat them.
//!
//! Every rule is a function that takes files or crates and returns a list of problems. Each problem names its place and
//! the fix. So each rule can be tested with a bad example. The tests in `tests/` apply the rules to this repository.

pub mod circles;
pub mod code;
pub mod crates;
pub mod documents;
pub mod figures;
pub mod front_doors;
pub mod language;
pub mod measures;
pub mod modules;
pub mod operate;
pub mod tree;

/// Fails with all `problems`, one per line.
///
/// # Panics
/// When there is a problem.
pub fn all_clear(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "{} to fix:\n  {}\n",
        problems.len(),
        problems.join("\n  ")
    );
}
