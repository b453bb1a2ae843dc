//! The program as it is called.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::process::{Command, Output};

fn fuzz(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_fuzz"));
    program.args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn target_without_a_finding_tells_its_figures() {
    let output = fuzz(&["names", "--seconds", "1"]);
    assert!(output.status.success(), "{output:?}");
    assert!(
        said(&output).starts_with("names: ") && said(&output).contains("no finding"),
        "{output:?}"
    );
}

#[test]
fn one_input_is_run_again_from_its_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "a: 1\n").unwrap();
    let output = fuzz(&["yaml", "--input", file.path().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said(&output), "yaml: no law is broken\n");
}
