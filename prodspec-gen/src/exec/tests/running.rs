//! One run: what the program gets, and what each way to fail is reported as.

use plugin_sdk::{
    Problem,
    document::{Node, Value},
};
use serde_json::json;

use super::{Exec, Script, read, refused, values};
use crate::format::{Format, Limits};

/// A list of lines, as a format that a team writes.
struct Lines;

impl Format for Lines {
    const NAME: &'static str = "lines";
    const EXTENSIONS: &'static [&'static str] = &["txt"];
    const END: Option<&'static str> = None;

    fn parse(text: &str, _: &Limits) -> Result<Vec<Node>, Problem> {
        let lines: Vec<&str> = text.lines().collect();
        Ok(vec![Node::from(json!(lines))])
    }
}

#[tokio::test]
async fn r46_program_sees_its_arguments_and_only_the_declared_environment() {
    let variables = Exec::new("variables", "env").format::<Lines>();
    let reading = read(
        &variables
            .clone()
            .env("A", "0")
            .env("B", "2 $A")
            .env("A", "1"),
    )
    .await;
    assert_eq!(values(&reading.documents), [json!(["A=1", "B=2 $A"])]);
    let arguments = ["%s\\n", "", "two words", "$HOME", "*"];
    let reading = read(&Exec::new("a", "printf").args(arguments).format::<Lines>()).await;
    assert_eq!(
        values(&reading.documents),
        [json!(["", "two words", "$HOME", "*"])]
    );
    let shown = format!("{:?}", variables.env("TOKEN", "secret"));
    assert!(
        shown.contains("TOKEN") && !shown.contains("secret"),
        "{shown}"
    );
}

#[tokio::test]
async fn r46_standard_input_is_empty() {
    let script = Script::new("printf 'read: [%s]' \"$(cat)\"");
    let reading = read(&script.source()).await;
    assert_eq!(values(&reading.documents), [json!({"read": []})]);
}

#[tokio::test]
async fn r46_output_is_read_in_the_declared_format() {
    let yaml = Script::new("printf 'a: 1\\n---\\nb: 2\\n'");
    let reading = read(&yaml.source()).await;
    assert_eq!(
        values(&reading.documents),
        [json!({"a": 1}), json!({"b": 2})]
    );
    let document = &reading.documents[1];
    assert_eq!(document.name(), "output of `sh render.sh`#1");
    assert_eq!(
        (document.root().line, &*document.key().source.0),
        (3, "rendered")
    );
    assert!(matches!(document.root().value, Value::Map(_)));
    let json = Script::new("echo '{\"a\": [1]}'");
    assert_eq!(
        values(&read(&json.source().json()).await.documents),
        [json!({"a": [1]})]
    );
    let toml = Script::new("echo '[a]'; echo 'b = 1'");
    assert_eq!(
        values(&read(&toml.source().toml()).await.documents),
        [json!({"a": {"b": 1}})]
    );
}

#[tokio::test]
async fn r46_exit_status_is_an_error_with_the_standard_error() {
    let script = Script::new("echo 'a: 1'; echo 'no such chart' >&2; echo '  shop' >&2; exit 3");
    let said = refused(&script.source()).await;
    assert!(said.starts_with("output of `sh render.sh`: `/"), "{said}");
    let rest = "/sh` ended with exit status: 3; fix what it reports; standard error: no such chart |   shop (says source rendered)";
    assert!(said.ends_with(rest), "{said}");
    let silent = refused(&Exec::new("silent", "false")).await;
    assert!(
        silent.contains("it printed nothing to standard error"),
        "{silent}"
    );
}

#[tokio::test]
async fn r46_death_by_a_signal_is_an_error() {
    let said = refused(&Script::new("echo 'a: 1'; kill -9 $$").source()).await;
    assert!(said.contains("ended with signal: 9 (SIGKILL)"), "{said}");
}

#[tokio::test]
async fn r46_long_standard_error_does_not_hold_up_the_program() {
    let script = Script::new(
        "echo first >&2; i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i + 1)); done; echo last >&2; exit 1",
    );
    let said = refused(&script.source()).await;
    assert!(said.contains("standard error: first | line 0 |"), "{said}");
    assert!(said.contains("bytes left out]"), "{said}");
    assert!(
        said.ends_with("| line 19999 | last (says source rendered)"),
        "{said}"
    );
    assert!(said.len() < 4 * 4096, "{}", said.len());
}

#[tokio::test]
async fn r46_output_that_is_not_utf8_or_does_not_parse_is_an_error_with_its_position() {
    let refused = async |text: &str| refused(&Script::new(text).source()).await;
    let said = refused("printf 'a: 1\\nb: \\377'").await;
    let place = "output of `sh render.sh`:2:4: not UTF-8; make the program print UTF-8 text";
    assert!(said.starts_with(place), "{said}");
    let said = refused("printf 'a: 1\\na: 2\\n'").await;
    assert!(
        said.starts_with("output of `sh render.sh`:2:1: the key `a` appears twice"),
        "{said}"
    );
    for empty in ["", "echo", "echo '# nothing'"] {
        let said = refused(empty).await;
        assert!(said.contains("the program printed no document"), "{said}");
    }
}

#[tokio::test]
async fn r46_output_without_its_end_marker_is_refused() {
    let cut = Script::new("printf 'a: 1\\n---\\nb: 2\\n'");
    let said = refused(&cut.source().with_end_marker()).await;
    let place = "output of `sh render.sh`:3:1: the output may be cut off: it does not end with the line `...`; make the program print it";
    assert!(said.starts_with(place), "{said}");
    let complete = Script::new("printf 'a: 1\\n...\\n'");
    read(&complete.source().with_end_marker()).await;
}

#[tokio::test]
async fn r46_missing_program_or_directory_is_named() {
    let said = refused(&Exec::new("a", "no-such-tool").arg("x")).await;
    let place = "output of `no-such-tool x`: `no-such-tool` was not found on the PATH of this process; install it";
    assert!(said.starts_with(place), "{said}");
    let script = Script::new("");
    for (source, place) in [
        (
            script.source().current_dir(script.path("none")),
            "none/render.sh",
        ),
        (script.source().input("values.yaml"), "values.yaml"),
    ] {
        let said = refused(&source).await;
        assert!(
            said.contains(&format!("{place}: cannot be read: No such file")),
            "{said}"
        );
    }
    let nowhere = Exec::new("a", "sh").current_dir(script.path("none"));
    let said = refused(&nowhere).await;
    assert!(
        said.contains("cannot be run: No such file") && said.contains("/none` exists"),
        "{said}"
    );
    assert_eq!(script.runs(), 0);
}

#[tokio::test]
async fn r45_output_of_a_program_is_never_taken_for_a_template() {
    let print = |text: &str| Exec::new("alerts", "printf").args(["%s", text]);
    let alert = "a: more than\n  {{- $value }}\nb{{ x }}: <% y %>\n";
    let expected = json!({"a": "more than {{- $value }}", "b{{ x }}": "<% y %>"});
    let few = Limits {
        depth: 2,
        ..Limits::default()
    };
    for source in [print(alert), print(alert).limits(few)] {
        assert_eq!(values(&read(&source).await.documents)[0], expected);
    }
    let named = print("n: '{{ x }}'\n").documents_named_by("n".parse().unwrap());
    assert_eq!(read(&named).await.documents[0].name(), "{{ x }}");
    let problem = refused(&print("a: {{ x }}\n")).await;
    assert!(!problem.contains("render"), "{problem}");
}
