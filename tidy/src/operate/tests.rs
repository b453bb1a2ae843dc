use super::*;

const CODE: &str = r#"
fn tells(all: u32) {
    tracing::warn!(%all, reason = "no message", "a push \
        failed");
    select! { () = shutdown => error!(?all, "it `stopped`"), }
    let calls = |call: &'static str| counter!("calls_total", "call" => call);
    metrics::gauge!("unsettled").set(1.0);
    tracing::debug!("for developers");
}

#[cfg(test)]
mod tests {
    fn quiet() { tracing::info!("only in a test"); }
}

fn after() { info!("owns it"); }
"#;

const EXPLAINED: &str = "
## Log lines

| level | message | what it means |
|---|---|---|
| WARN | `a push failed` | look |
| ERROR | `` it `stopped` `` | look |
| INFO | `owns it` | nothing |

## Metrics

| kind | name | what it means |
|---|---|---|
| counter | `calls_total` | calls |
| gauge | `unsettled` | assets |

## Something else

| WARN | `not a line of the log` |
";

fn problems(code: &str, document: &str) -> Vec<String> {
    let file = |path: &str, text: &str| File {
        path: path.into(),
        text: text.into(),
    };
    check(&Tree {
        root: env!("CARGO_MANIFEST_DIR").into(),
        files: vec![
            file("engine/src/lib.rs", code),
            file("engine/tests/it.rs", "fn it() { info!(\"a test\"); }"),
            file("examples/one/src/main.rs", "fn it() { info!(\"mine\"); }"),
            file(DOCUMENT, document),
        ],
    })
}

#[test]
fn explained_lines_and_metrics_give_no_problem() {
    assert_eq!(problems(CODE, EXPLAINED), [""; 0]);
}

#[test]
fn unexplained_lines_and_metrics_are_found() {
    for line in EXPLAINED.lines().filter(|line| line.contains("| `")) {
        if line.contains("not a line") {
            continue;
        }
        let found = problems(CODE, &EXPLAINED.replace(line, ""));
        assert!(
            found.len() == 1 && found[0].contains("explain"),
            "{line}: {found:?}"
        );
    }
}

#[test]
fn explanations_of_missing_lines_and_metrics_are_found() {
    let gone = [
        ("\"owns it\"", "\"owns that\""),
        ("\"unsettled\"", "\"settled\""),
        ("info!(\"owns it\")", "warn!(\"owns it\")"),
        ("gauge!(", "histogram!("),
    ];
    for (is, becomes) in gone {
        let found = problems(&CODE.replace(is, becomes), EXPLAINED);
        assert_eq!(found.len(), 2, "{is}: {found:?}");
        assert!(found[1].contains("no code emits it"), "{found:?}");
    }
}

#[test]
fn lines_and_metrics_without_a_literal_are_found() {
    for code in [
        "fn it() { info!(%error); }",
        "fn it() { counter!(NAME); }",
        "fn it() { warn!(kind = \"x\"); }",
    ] {
        let found = problems(code, "");
        assert!(
            found[0].starts_with("engine/src/lib.rs:1: give it"),
            "{found:?}"
        );
    }
}
