//! House rules as tests: what review would otherwise have to say again and again.
//!
//! Every rule is a function from what it looks at to a list of problems, each of which says where and what to do, so
//! that the rule itself can be tested on a bad example. `tests/` applies the rules to this repository.

pub mod code;
pub mod crates;
pub mod documents;
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
