//! Templates: text that is to become a file of some format and is none yet. Refused as what it is, and not by the
//! accident of its first character that the format does not know.

use plugin_sdk::Problem;

use super::wrong;

/// How expressions of common template languages begin and end.
const EXPRESSIONS: [(&str, &str); 3] = [("{{", "}}"), ("{%", "%}"), ("<%", "%>")];

/// What begins an expression in text that no quotes protect: `{{` in `app-{{ .Values.name }}`.
pub(super) fn expression(unquoted: &str) -> Option<&'static str> {
    let holds = |(open, close): &&(&str, &str)| {
        let inside = unquoted.split_once(open).map(|(_, rest)| rest);
        inside.is_some_and(|rest| rest.contains(close))
    };
    EXPRESSIONS.iter().find(holds).map(|(open, _)| *open)
}

/// Why text with an expression is refused.
pub(super) fn refusal(open: &str) -> String {
    format!("looks like a template: `{open}` begins an expression; render it, or quote the text")
}

/// The same problem, or, where a template explains it, a template instead. An expression in the line of the problem
/// explains it. A line before that is nothing but an expression, such as `{{- if .Values.x }}`, explains what the
/// parser of the format stumbles over (`syntax`).
pub(super) fn explain(text: &str, problem: Problem, syntax: bool) -> Problem {
    let until = text.lines().take(problem.line as usize);
    let mut lines: Vec<(usize, &str)> = (1..).zip(until).collect();
    let here = lines
        .pop()
        .and_then(|(line, text)| Some((line, begun(text)?)));
    let control = |(line, text): &(usize, &str)| {
        let begun = begun(text)?;
        let alone = text[..begun.1].trim().is_empty();
        alone.then_some((*line, begun))
    };
    let before = || lines.iter().rev().filter(|_| syntax).find_map(control);
    match here.or_else(before) {
        Some((line, (open, column))) => {
            let message = format!(
                "{}. Read as it is, {}:{}: {}",
                refusal(open),
                problem.line,
                problem.column,
                problem.message
            );
            wrong(message, line, column + 1)
        }
        None => problem,
    }
}

/// Where an expression begins in a line, outside of quotes and comments; the column counts bytes, from 0.
fn begun(line: &str) -> Option<(&'static str, usize)> {
    let (mut quote, mut before) = (None, ' ');
    for (at, character) in line.char_indices() {
        match (quote, character) {
            (None, '#') if before.is_whitespace() => return None,
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            (None, _) => {
                let rest = &line[at..];
                let opens = |(open, _): &&(&str, &str)| rest.starts_with(open);
                if let Some((open, _)) = EXPRESSIONS.iter().find(opens) {
                    return Some((open, at));
                }
            }
            _ => {}
        }
        before = character;
    }
    None
}
