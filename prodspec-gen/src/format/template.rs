//! Detects templates that were not rendered. A template is refused with a message that says so, instead of the syntax
//! error at its first unexpected character.

use plugin_sdk::Problem;

use super::wrong;

/// The delimiters of expressions in common template languages.
const EXPRESSIONS: [(&str, &str); 3] = [("{{", "}}"), ("{%", "%}"), ("<%", "%>")];

/// The opening delimiter of an expression in unquoted text, such as `{{` in `app-{{ .Values.name }}`. `None`: there is
/// no expression.
pub(crate) fn expression(unquoted: &str) -> Option<&'static str> {
    // Most texts have no delimiter at all, and this is asked of every unquoted text.
    if !unquoted.bytes().any(|byte| matches!(byte, b'{' | b'<')) {
        return None;
    }
    let holds = |(open, close): &&(&str, &str)| {
        let inside = unquoted.split_once(open).map(|(_, rest)| rest);
        inside.is_some_and(|rest| rest.contains(close))
    };
    EXPRESSIONS.iter().find(holds).map(|(open, _)| *open)
}

/// The message with which text with an expression is refused.
pub(super) fn refusal(open: &str) -> String {
    format!(
        "looks like a template: `{open}` begins an expression; render it first, for example with an exec source, or quote the text"
    )
}

/// Replaces a problem by a message about a template, if a template is its likely cause; otherwise returns it unchanged.
///
/// A template is the likely cause if the line of the problem has an expression. For a syntax error (`syntax`), it is
/// also the likely cause if an earlier line begins with an expression, such as `{{- if .Values.x }}`.
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
                "{}. The parser reports {}:{}: {}",
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

/// The opening delimiter of the first expression in a line, outside of quotes and comments, and its column in bytes,
/// counted from 0. `None`: the line has no expression.
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
