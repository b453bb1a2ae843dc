//! Detects templates that were not rendered. A template is refused with a message that says so, instead of the syntax
//! error at its first unexpected character. An expression inside a text is text: alert rules and parameters of workflows
//! keep theirs for ever.

use plugin_sdk::Problem;

use super::{Limits, wrong};

/// The delimiters of expressions in common template languages.
const EXPRESSIONS: [(&str, &str); 3] = [("{{", "}}"), ("{%", "%}"), ("<%", "%>")];

/// How a line of a template begins that controls other lines.
const CONTROLS: [(&str, &str); 3] = [("{{-", "}}"), ("{%", "%}"), ("<%", "%>")];

/// The characters after which a value begins.
const BEFORE_VALUES: [char; 7] = [':', '-', '?', ',', '[', '{', '='];

/// The opening delimiter of an expression in unquoted text, such as `{{` in `app-{{ .Values.name }}`. `None`: there is
/// no expression.
pub(crate) fn expression(unquoted: &str) -> Option<&'static str> {
    let holds = |(open, close): &&(&str, &str)| {
        let inside = unquoted.split_once(open).map(|(_, rest)| rest);
        inside.is_some_and(|rest| rest.contains(close))
    };
    may_have(unquoted)
        .then(|| EXPRESSIONS.iter().find(holds))?
        .map(|(open, _)| *open)
}

/// The opening delimiter with which an unquoted scalar, or one of its further lines, shows that it was not rendered.
/// `written` is the scalar with its line breaks. `None`: its expressions are inside of text.
pub(super) fn unrendered(written: &str) -> Option<&'static str> {
    if !may_have(written) {
        return None;
    }
    let mut lines = written.lines().map(str::trim_start);
    let first = begins(lines.next()?, &EXPRESSIONS);
    first.or_else(|| lines.find_map(|line| begins(line, &CONTROLS)))
}

/// Whether a text can have an expression. Most texts cannot, and this is called for every unquoted text.
fn may_have(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'{' | b'<'))
}

/// The opening delimiter with which a line begins, if it has the closing one, too.
fn begins(line: &str, of: &[(&'static str, &str)]) -> Option<&'static str> {
    let whole = |(open, close): &&(&str, &str)| {
        let rest = line.strip_prefix(open);
        rest.is_some_and(|rest| rest.contains(close))
    };
    of.iter().find(whole).map(|(open, _)| &open[..2])
}

/// The message with which text with an expression is refused.
pub(super) fn refusal(open: &str) -> String {
    format!(
        "looks like a template: `{open}` begins an expression; render it first, for example with an exec source, or quote the text"
    )
}

/// Replaces a problem by a message about a template, if a template is its likely cause; otherwise returns it unchanged.
///
/// A template is the likely cause if an expression begins a value in the line of the problem. For a syntax error
/// (`syntax`), it is also the likely cause if an expression begins the line before. Rendered text is no template.
pub(super) fn explain(text: &str, limits: &Limits, problem: Problem, syntax: bool) -> Problem {
    if limits.rendered {
        return problem;
    }
    let until = text.lines().take(problem.line as usize);
    let mut lines: Vec<(usize, &str)> = (1..).zip(until).collect();
    let here = lines
        .pop()
        .and_then(|(line, text)| Some((line, begun(text)?)));
    let before = || {
        let last = lines.iter().rfind(|(_, text)| !text.trim().is_empty());
        let (line, text) = last.filter(|_| syntax)?;
        let begun = begun(text)?;
        let alone = text[..begun.1].trim().is_empty();
        alone.then_some((*line, begun))
    };
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

/// The opening delimiter of the first expression with which a value of a line begins, outside of quotes and comments, and
/// its column in bytes, counted from 0. `None`: no value begins with an expression.
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
                let left = line[..at].trim_end();
                let is_value = left.is_empty() || left.ends_with(BEFORE_VALUES);
                if let Some((open, _)) = EXPRESSIONS.iter().find(opens).filter(|_| is_value) {
                    return Some((open, at));
                }
            }
            _ => {}
        }
        before = character;
    }
    None
}
