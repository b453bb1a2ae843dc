//! Compares the library's log lines and metrics with `docs/operate.md`: each one is explained there, and each explained
//! one exists.

use std::{collections::BTreeSet, fmt};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::tree::{File, Tree};

/// Path of the document for operators.
pub const DOCUMENT: &str = "docs/operate.md";
/// Headings of the document's sections with the two tables.
const LINES: &str = "## Log lines";
const METRICS: &str = "## Metrics";
/// Macros that write a log line for operators, and macros that create a metric.
const LEVELS: [&str; 3] = ["error", "warn", "info"];
const KINDS: [&str; 3] = ["counter", "gauge", "histogram"];
/// Folders that the document does not cover: programs and tests have other readers.
const NO_LIBRARY: [&str; 5] = ["examples/", "benches/", "fuzz/", "simulation/", "tidy/"];

/// A log line with its level, or a metric with its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// Name of the macro, such as `warn` or `gauge`.
    pub by: String,
    /// Message of the log line, or name of the metric.
    pub what: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.by.to_uppercase(), self.what)
    }
}

/// Lists log lines and metrics that the document does not explain, and explained ones that no code emits.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    let document = tree.text(DOCUMENT).unwrap_or_default();
    let library = |file: &&File| {
        let other = NO_LIBRARY.iter().any(|place| file.path.starts_with(place));
        file.path.contains("/src/") && !other && !file.is_test()
    };
    let mut told = BTreeSet::new();
    for file in tree.rust().filter(library) {
        let (found, without) = said(&file.text);
        told.extend(found.into_iter().map(|found| (found, file.path.clone())));
        problems.extend(without.into_iter().map(|line| {
            format!(
                "{}:{line}: give it a message or a name as a single literal, so that {DOCUMENT} can explain it",
                file.path
            )
        }));
    }
    let explained = explained(document);
    for (told, path) in &told {
        if !explained.contains(told) {
            problems.push(format!("{DOCUMENT}: explain {told}, which {path} emits"));
        }
    }
    for explained in &explained {
        if !told.iter().any(|(told, _)| told == explained) {
            problems.push(format!("{DOCUMENT}: remove {explained}: no code emits it"));
        }
    }
    problems
}

/// Reads the two tables of the document. A row begins with the level or the kind, followed by the message or the name.
fn explained(document: &str) -> BTreeSet<Told> {
    let mut explained = BTreeSet::new();
    for (section, known) in [(LINES, LEVELS), (METRICS, KINDS)] {
        let rest = document.split_once(section).map_or("", |(_, rest)| rest);
        let section = rest.split("\n## ").next().unwrap_or_default();
        for line in section.lines() {
            let cells: Vec<&str> = line.trim().split('|').map(str::trim).collect();
            let ["", by, what, ..] = cells[..] else {
                continue;
            };
            let by = by.to_lowercase();
            if known.contains(&by.as_str()) {
                let what = what.trim_matches('`').trim().to_owned();
                explained.insert(Told { by, what });
            }
        }
    }
    explained
}

/// The log lines and metrics of a file outside of its tests, and the line numbers of those without a literal.
fn said(text: &str) -> (Vec<Told>, Vec<usize>) {
    let (mut found, mut without) = (Vec::new(), Vec::new());
    if let Ok(stream) = text.parse() {
        walk(stream, &mut found, &mut without);
    }
    (found, without)
}

fn walk(stream: TokenStream, found: &mut Vec<Told>, without: &mut Vec<usize>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at..] {
            [TokenTree::Punct(hash), TokenTree::Group(attribute), ..]
                if hash.as_char() == '#' && only_in_tests(attribute) =>
            {
                at += 2 + item(&tokens[at + 2..]);
                continue;
            }
            [
                TokenTree::Ident(name),
                TokenTree::Punct(bang),
                TokenTree::Group(arguments),
                ..,
            ] if bang.as_char() == '!' => match told(&name.to_string(), arguments) {
                Some(Some(told)) => found.push(told),
                Some(None) => without.push(name.span().start().line),
                None => {}
            },
            [TokenTree::Group(group), ..] => walk(group.stream(), found, without),
            _ => {}
        }
        at += 1;
    }
}

fn only_in_tests(attribute: &Group) -> bool {
    attribute.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// Number of tokens of the item at the front.
fn item(tokens: &[TokenTree]) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    let end = tokens.iter().position(ends);
    end.map_or(tokens.len(), |end| end + 1)
}

/// The log line or metric of a macro call. `None`: the macro makes neither. `Some(None)`: it has no literal to be
/// recognised by.
fn told(name: &str, arguments: &Group) -> Option<Option<Told>> {
    let arguments: Vec<TokenTree> = arguments.stream().into_iter().collect();
    let what = if LEVELS.contains(&name) {
        message(&arguments)
    } else if KINDS.contains(&name) {
        arguments.first().and_then(literal)
    } else {
        return None;
    };
    let by = name.to_owned();
    Some(what.map(|what| Told { by, what }))
}

/// The message of a log line: the last literal text that is not the value of a field.
fn message(arguments: &[TokenTree]) -> Option<String> {
    let is_value = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| arguments.get(at));
        matches!(before, Some(TokenTree::Punct(punct)) if punct.as_char() == '=')
    };
    let mut texts = (0..arguments.len()).rev().filter(|&at| !is_value(at));
    texts.find_map(|at| literal(&arguments[at]))
}

fn literal(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else {
        return None;
    };
    match syn::Lit::new(literal.clone()) {
        syn::Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
