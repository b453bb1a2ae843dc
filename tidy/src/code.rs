//! Rules about one Rust file: its header, its size, its folder, and code that it must not contain.

use proc_macro2::{Delimiter, LineColumn, TokenStream, TokenTree};
use syn::{spanned::Spanned, visit::Visit};

use crate::tree::File;

/// What a library begins with whose documentation is its README.
const README: &str = "#![doc = include_str!(\"../README.md\")]";

/// Maximum lines of a file without its test modules, of its test modules together, and of a test file.
const FILE_LINES: usize = 500;
/// Maximum lines of a function, signature included.
const FUNCTION_LINES: usize = 60;
/// Maximum depth of folders beneath `src/`.
const FOLDERS: usize = 2;

/// Refused sequences of tokens, each with the advice to fix it.
const REFUSED: [(&str, &str); 4] = [
    ("todo !", "finish the code, or leave it out"),
    ("unimplemented !", "finish the code, or leave it out"),
    ("dbg !", "remove it"),
    ("# [ ignore", "make the test run, or delete it"),
];
/// Calls that wait for time instead of for an event.
const SLEEPS: [&str; 2] = ["thread : : sleep", "time : : sleep"];
/// Places that may sleep: the runtime, programs with real processes, and measurements of periods.
const MAY_SLEEP: [&str; 3] = ["runtime/", "examples/", "benches/"];

/// Programs that print texts from outside. Only the files in [`MAY_SHOW`] may write to their terminal, so that control
/// characters in those texts are always escaped (R73).
const SHOWS: [&str; 2] = ["examples/shakespeare/src/", "examples/testbed/src/"];
/// Files of [`SHOWS`] that may write to standard output: the module that escapes text, and the processes of the demo's
/// production, which report to their parent process.
const MAY_SHOW: [&str; 2] = [
    "examples/testbed/src/voice.rs",
    "examples/testbed/src/production/",
];
/// Calls that write to the terminal. Clippy refuses the printing macros everywhere.
const TERMINAL: [&str; 2] = ["stdout ( )", "stderr ( )"];

/// Applies every rule about a single file and lists the problems.
pub fn check(file: &File) -> Vec<String> {
    let mut problems = Vec::new();
    header(file, &mut problems);
    place(file, &mut problems);
    match syn::parse_file(&file.text) {
        Ok(syntax) => sizes(file, &syntax, &mut problems),
        Err(error) => problems.push(format!("{}: cannot be parsed as Rust: {error}", file.path)),
    }
    words(file, &mut problems);
    problems
}

fn header(file: &File, problems: &mut Vec<String>) {
    let documented = file.text.starts_with("//!") || file.text.starts_with(README);
    if !file.is_test() && !documented {
        problems.push(format!(
            "{}: begin it with `//!`: say what the file contains, and why it is a module of its own",
            file.path
        ));
    }
}

fn place(file: &File, problems: &mut Vec<String>) {
    let beneath = file.path.split_once("src/").map_or("", |(_, path)| path);
    if beneath.matches('/').count() > FOLDERS {
        problems.push(format!(
            "{}: is more than {FOLDERS} folders below src/; move it up",
            file.path
        ));
    }
}

fn sizes(file: &File, syntax: &syn::File, problems: &mut Vec<String>) {
    let mut sizes = Sizes::default();
    sizes.visit_file(syntax);
    let whole = file.text.lines().count();
    let (code, tests) = match file.is_test() {
        true => (0, whole),
        false => (whole.saturating_sub(sizes.in_tests), sizes.in_tests),
    };
    if code > FILE_LINES {
        problems.push(format!(
            "{}: {code} lines without its tests, {FILE_LINES} are allowed; split it by concept",
            file.path
        ));
    }
    if tests > FILE_LINES {
        let (what, split) = match file.is_test() {
            true => ("the test file has", "it"),
            false => ("its test modules have", "them"),
        };
        problems.push(format!(
            "{}: {what} {tests} lines: split {split} by rule or topic; {FILE_LINES} are allowed",
            file.path
        ));
    }
    for (name, at, lines) in sizes.functions {
        if lines > FUNCTION_LINES {
            problems.push(format!(
                "{}:{at}: `{name}` has {lines} lines, {FUNCTION_LINES} are allowed; split it into named steps",
                file.path
            ));
        }
    }
}

fn words(file: &File, problems: &mut Vec<String>) {
    let tokens = tokens(&file.text);
    let may_sleep = MAY_SLEEP.iter().any(|place| file.path.starts_with(place));
    for (refused, advice) in REFUSED {
        for line in find(&tokens, refused) {
            problems.push(format!("{}:{line}: `{refused}`: {advice}", file.path));
        }
    }
    for sleep in SLEEPS.into_iter().filter(|_| !may_sleep) {
        for line in find(&tokens, sleep) {
            let advice = "wait for an event, or take a `Runtime` and pass virtual time in tests";
            problems.push(format!("{}:{line}: `{sleep}`: {advice}", file.path));
        }
    }
    let within = |places: [&str; 2]| places.iter().any(|place| file.path.starts_with(place));
    let shows = within(SHOWS) && !within(MAY_SHOW);
    for terminal in TERMINAL.into_iter().filter(|_| shows) {
        for line in find(&tokens, terminal) {
            let advice = "print through the module `voice`, which escapes control characters";
            problems.push(format!("{}:{line}: `{terminal}`: {advice}", file.path));
        }
    }
    for pair in tokens.windows(2) {
        let [(before, _), (name, line)] = pair else {
            continue;
        };
        if before == "fn" && name.starts_with("get_") {
            let advice = "drop the prefix: name a getter after the value that it returns";
            problems.push(format!("{}:{line}: `{name}`: {advice}", file.path));
        }
        let names = ["struct", "enum", "trait", "mod"].contains(&before.as_str());
        if names && vague(name) {
            let advice = "name the item after its purpose, with the article's words";
            problems.push(format!("{}:{line}: `{name}`: {advice}", file.path));
        }
    }
    for (at, line) in file.text.lines().enumerate() {
        let text = line.trim_start().trim_start_matches(['/', '!']).trim();
        if text.starts_with("```") && text.contains("ignore") {
            let advice = "examples must run: hide the missing lines behind `# `";
            problems.push(format!("{}:{}: {text}: {advice}", file.path, at + 1));
        }
    }
}

fn vague(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // A program of the field is called so.
    let name = name.trim_end_matches("alertmanager");
    ["manager", "helper", "helpers", "util", "utils"]
        .iter()
        .any(|end| name.ends_with(end))
}

#[derive(Default)]
struct Sizes {
    /// Lines inside modules that only tests compile.
    in_tests: usize,
    /// Name, first line and length of each function.
    functions: Vec<(String, usize, usize)>,
}

impl Sizes {
    fn function(&mut self, signature: &syn::Signature, end: LineColumn) {
        let start = signature.span().start().line;
        let name = signature.ident.to_string();
        self.functions.push((name, start, end.line + 1 - start));
    }
}

impl<'a> Visit<'a> for Sizes {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.sig, item.block.span().end());
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(&item.sig, item.block.span().end());
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if item.content.is_some() && item.attrs.iter().any(only_in_tests) {
            let span = item.span();
            self.in_tests += span.end().line + 1 - span.start().line;
        }
        syn::visit::visit_item_mod(self, item);
    }
}

pub(crate) fn only_in_tests(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<syn::Path>()
            .is_ok_and(|path| path.is_ident("test"))
}

/// The tokens of `text` with their lines, without comments and without the content of literals. Empty if `text` cannot
/// be parsed.
fn tokens(text: &str) -> Vec<(String, usize)> {
    let mut flat = Vec::new();
    if let Ok(stream) = text.parse() {
        flatten(stream, &mut flat);
    }
    flat
}

fn flatten(stream: TokenStream, flat: &mut Vec<(String, usize)>) {
    for token in stream {
        let line = token.span().start().line;
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                flat.push((open.into(), line));
                flatten(group.stream(), flat);
                flat.push((close.into(), group.span_close().start().line));
            }
            TokenTree::Literal(_) => flat.push(("literal".into(), line)),
            other => flat.push((other.to_string(), line)),
        }
    }
}

fn find(tokens: &[(String, usize)], sequence: &str) -> Vec<usize> {
    let wanted: Vec<&str> = sequence.split(' ').collect();
    let is_it = |window: &&[(String, usize)]| window.iter().map(|(token, _)| token).eq(&wanted);
    let found = tokens.windows(wanted.len()).filter(is_it);
    found.map(|window| window[0].1).collect()
}

/// Lists the names of all test functions in `text`, also of those inside macros.
pub fn test_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(stream) = text.parse() {
        tests_in(stream, &mut names);
    }
    names
}

fn tests_in(stream: TokenStream, names: &mut Vec<String>) {
    let (mut is_test, mut after_fn) = (false, false);
    for token in stream {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                is_test |= is_test_attribute(group.stream());
            }
            TokenTree::Group(group) => {
                is_test &= group.delimiter() != Delimiter::Brace;
                tests_in(group.stream(), names);
            }
            TokenTree::Ident(ident) if after_fn => {
                names.extend(is_test.then(|| ident.to_string()));
                (is_test, after_fn) = (false, false);
            }
            TokenTree::Ident(ident) => after_fn = ident == "fn",
            _ => {}
        }
    }
}

/// Whether an attribute marks a test: its last name is `test`, as in `test`, `tokio::test` and `tokio::test(...)`.
fn is_test_attribute(stream: TokenStream) -> bool {
    let names = stream.into_iter().filter_map(|token| match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    });
    names.last().is_some_and(|name| name == "test")
}

#[cfg(test)]
mod tests;
