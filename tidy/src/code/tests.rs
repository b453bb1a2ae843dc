use super::*;

fn problems(path: &str, text: &str) -> Vec<String> {
    check(&File {
        path: path.into(),
        text: text.into(),
    })
}

/// Asserts that `text` has exactly one problem, and that it contains `wanted`.
fn only(path: &str, text: &str, wanted: &str) {
    let found = problems(path, text);
    assert!(
        found.len() == 1 && found[0].contains(wanted),
        "wanted `{wanted}`, found {found:?}"
    );
}

#[test]
fn a_good_file_has_no_problem() {
    let text = "//! Good.\n\n/// A `dbg!` in a comment, and \"todo!()\" in a string.\nfn f() -> &'static str { \"todo!()\" }\n";
    assert_eq!(problems("a/src/lib.rs", text), [""; 0]);
}

#[test]
fn a_missing_header_is_found_except_in_test_files() {
    only("a/src/lib.rs", "fn f() {}\n", "begin it with `//!`");
    assert_eq!(problems("a/src/tests.rs", "fn f() {}\n"), [""; 0]);
    assert_eq!(problems("a/tests/it.rs", "fn f() {}\n"), [""; 0]);
}

#[test]
fn a_long_file_is_found_and_its_test_modules_do_not_count() {
    let lines = "const A: u8 = 0;\n".repeat(500);
    only("a/src/lib.rs", &format!("//! Long.\n{lines}"), "501 lines");
    let lines = "const A: u8 = 0;\n".repeat(490);
    let more = "const A: u8 = 0;\n".repeat(400);
    let tests = format!("//! Fine.\n{more}#[cfg(test)]\nmod tests {{\n{lines}}}\n");
    assert_eq!(problems("a/src/lib.rs", &tests), [""; 0]);
}

#[test]
fn a_long_test_file_or_test_module_is_found() {
    let lines = "const A: u8 = 0;\n".repeat(501);
    for path in [
        "a/src/tests.rs",
        "a/src/b/tests/c.rs",
        "a/tests/it.rs",
        "simulation/tests/seeds.rs",
        "examples/testbed/tests/demo.rs",
    ] {
        only(path, &lines, "501 lines: split it by rule or topic");
        let shorter = "const A: u8 = 0;\n".repeat(500);
        assert_eq!(problems(path, &shorter), [""; 0]);
    }
    let tests = format!("//! Long.\n#[cfg(test)]\nmod tests {{\n{lines}}}\n");
    only(
        "a/src/lib.rs",
        &tests,
        "504 lines: split them by rule or topic",
    );
}

#[test]
fn a_long_function_is_found_in_modules_and_impls() {
    let body = "    let _ = 0;\n".repeat(59);
    only(
        "a/src/lib.rs",
        &format!("//! L.\nfn long() {{\n{body}}}\n"),
        "`long` has 61 lines",
    );
    let method = format!("//! L.\nimpl A {{\nfn long() {{\n{body}}}\n}}\n");
    only("a/src/lib.rs", &method, "`long` has 61 lines");
}

#[test]
fn a_deep_folder_is_found() {
    let text = "//! Deep.\n";
    only("a/src/b/c/d/e.rs", text, "folders below src/");
    assert_eq!(problems("a/src/b/c/e.rs", text), [""; 0]);
}

#[test]
fn refused_code_is_found_outside_comments_and_literals() {
    let sayings = [
        ("fn f() { todo!() }", "todo"),
        ("fn f() { dbg!(1); }", "dbg"),
        ("#[ignore] fn f() {}", "ignore"),
        ("fn f() { std::thread::sleep(d) }", "thread : : sleep"),
        (
            "fn f() { x! { tokio::time::sleep(d).await } }",
            "time : : sleep",
        ),
        ("fn get_it() {}", "get_it"),
        ("struct PushManager;", "PushManager"),
        ("mod utils;", "utils"),
        ("/// ```ignore\n/// ```\nfn f() {}", "examples must run"),
    ];
    for (text, wanted) in sayings {
        only("a/src/lib.rs", &format!("//! Said.\n{text}\n"), wanted);
    }
    let sleep = "//! Time.\nfn f() { tokio::time::sleep(d); }\n";
    assert_eq!(problems("runtime/src/a.rs", sleep), [""; 0]);
    let until = "//! Time.\nfn f() { tokio::time::sleep_until(d); }\n";
    assert_eq!(problems("a/src/lib.rs", until), [""; 0]);
}

#[test]
fn r73_writing_to_the_terminal_is_found_outside_of_voice() {
    let text = "//! Says.\nfn f() { let _ = io::stdout().write_all(b\"x\"); child.stdout(log); }\n";
    only("examples/shakespeare/src/plane.rs", text, "voice");
    only("examples/testbed/src/place.rs", text, "voice");
    assert_eq!(problems("examples/testbed/src/voice.rs", text), [""; 0]);
    assert_eq!(problems("benches/src/main.rs", text), [""; 0]);
}

#[test]
fn test_functions_are_found_in_every_form() {
    let text = "
        #[test] fn r1_plain() {}
        #[tokio::test(start_paused = true)] async fn r2_async() {}
        proptest! { #[test] fn r3_property(a in 0..1) {} }
        #[test] #[should_panic] fn r4_attributes() {}
        #[cfg(test)] mod tests { fn r5_no_test() {} }
        fn r6_no_test() {}
    ";
    let names = test_names(text);
    assert_eq!(
        names,
        ["r1_plain", "r2_async", "r3_property", "r4_attributes"]
    );
}
