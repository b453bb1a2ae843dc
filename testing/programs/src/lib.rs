//! Skips tests whose programs are not installed, and prints which and why.
//!
//! A machine without kubectl or PostgreSQL can still run all other tests. Continuous integration sets
//! [`REQUIRE_ALL`], and there a missing program fails the test.

use std::{env, io::Write};

/// Environment variable under which a test with a missing program fails instead of being skipped. Its value does not
/// matter.
pub const REQUIRE_ALL: &str = "TESTS_REQUIRE_PROGRAMS";

/// Ends the calling test as skipped if `program` is not on the `PATH`. The test has to return `()`.
///
/// `package` is Debian's package of it. A program that Debian does not have goes without: its tests are skipped, and
/// printed, in continuous integration too.
///
/// ```
/// fn test_that_lists_files() {
///     testing_programs::needs!("ls", "coreutils");
/// }
/// test_that_lists_files();
/// ```
#[macro_export]
macro_rules! needs {
    ($program:expr $(, $package:expr)?) => {
        if !$crate::is_installed($program) {
            return $crate::skip($program, None$(.or(Some($package)))?);
        }
    };
}

/// Whether `program` is in a directory of the `PATH`.
pub fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).exists())
}

/// Prints that the calling test is skipped because `program` is missing, past the capture of the test harness.
///
/// # Panics
/// When there is a `package` of it and [`REQUIRE_ALL`] is set: then the test fails.
#[allow(
    clippy::panic,
    reason = "only tests call it, and a test fails where it panics"
)]
pub fn skip(program: &str, package: Option<&str>) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let advice = package.map_or_else(
        || "Debian has no package of it".to_owned(),
        |package| format!("install Debian's package `{package}`"),
    );
    if package.is_some() && env::var_os(REQUIRE_ALL).is_some() {
        panic!("{program} is not installed, and {REQUIRE_ALL} is set; {advice}");
    }
    // Nothing can be done about a closed standard error.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {test}: {program} is not installed; {advice}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_on_the_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-program-has-this-name"));
    }
}
