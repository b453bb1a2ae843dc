//! What the library tells those who run it, compared with `docs/operate.md`: every line of the log and every metric is
//! explained there, and what is explained there exists.

use std::{collections::BTreeSet, fmt};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::tree::{File, Tree};

/// The document.
pub const DOCUMENT: &str = "docs/operate.md";
/// Its sections with the two tables.
const LINES: &str = "## Log lines";
const METRICS: &str = "## Metrics";
/// Macros that write a line of the log, those that people read; and those that make a metric.
const LEVELS: [&str; 3] = ["error", "warn", "info"];
const KINDS: [&str; 3] = ["counter", "gauge", "histogram"];
/// Programs and tests speak to other people.
const NO_LIBRARY: [&str; 4] = ["examples/", "benches/", "simulation/", "tidy/"];

/// One thing that is told: a line of the log with its level, or a metric with its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// The macro that tells it, such as `warn` or `gauge`.
    pub by: String,
    /// The line's message, or the metric's name.
    pub what: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.by.to_uppercase(), self.what)
    }
}

/// What is told and not explained, and what is explained and not told.
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
                "{}:{line}: give it a message or a name as one literal, so that {DOCUMENT} can explain it",
                file.path
            )
        }));
    }
    let explained = explained(document);
    for (told, path) in &told {
        if !explained.contains(told) {
            problems.push(format!("{DOCUMENT}: explain {told}, which {path} tells"));
        }
    }
    for explained in &explained {
        if !told.iter().any(|(told, _)| told == explained) {
            problems.push(format!(
                "{DOCUMENT}: take {explained} away: no code tells it"
            ));
        }
    }
    problems
}

/// What the two tables of the document explain. Their rows begin with the level or the kind, then the message or name.
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

/// What a file tells outside of its tests; and the lines of what has no literal to be known by.
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

/// How many tokens the item at the front has.
fn item(tokens: &[TokenTree]) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    let end = tokens.iter().position(ends);
    end.map_or(tokens.len(), |end| end + 1)
}

/// `None`: the macro tells nothing. `Some(None)`: it does, and there is no literal to know it by.
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

/// The message of a line: the text that is not the value of a field.
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
