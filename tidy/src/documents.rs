//! Rules that compare the documents with the tree: rules and invariants have existing tests, paths exist, and the
//! README names the commands.

use std::collections::{BTreeMap, BTreeSet};

use crate::{crates::Member, tree::Tree};

/// Maximum lines of ARCHITECTURE.md; a longer page is not read.
const ARCHITECTURE_LINES: usize = 250;
/// Invariants that ARCHITECTURE.md has to list. The others follow with the features that they belong to.
const INVARIANTS: [&str; 12] = [
    "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "L1", "L2",
];
/// The two commands of a newcomer, which the README has to name.
const COMMANDS: [&str; 2] = ["cargo run -p shakespeare", ".ci/test"];

/// The rules that ARCHITECTURE.md has to list.
fn rules() -> impl Iterator<Item = String> {
    let numbers = (1..=50).chain([70, 72, 73]);
    numbers.map(|number: u32| format!("R{number}"))
}

/// The rules and invariants that `architecture` lists, each with the tests that it names.
fn listed(architecture: &str) -> BTreeMap<String, Vec<String>> {
    let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in architecture.lines() {
        let cells: Vec<&str> = line.trim().split('|').map(str::trim).collect();
        if let ["", name, .., tests, ""] = cells[..]
            && is_numbered(name)
        {
            let named = code_spans(tests).map(str::to_owned);
            listed.entry(name.to_owned()).or_default().extend(named);
        }
    }
    listed
}

/// Whether `name` is the number of a rule or an invariant, such as `R7`, `S1` or `L2`.
fn is_numbered(name: &str) -> bool {
    let number = name.strip_prefix(['R', 'S', 'L']).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lists rules and invariants that name no test or several, and named tests that do not exist.
pub fn guarded(architecture: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let listed = listed(architecture);
    let mut problems = Vec::new();
    for name in rules().chain(INVARIANTS.map(str::to_owned)) {
        if !listed.contains_key(&name) {
            problems.push(format!("ARCHITECTURE.md: list {name} with its tests"));
        }
    }
    for (name, named) in &listed {
        for missing in named.iter().filter(|test| !tests.contains(*test)) {
            problems.push(format!(
                "ARCHITECTURE.md: {name}: there is no test `{missing}`; write it, or name the test that guards {name}"
            ));
        }
        let prefix = format!("{}_", name.to_lowercase());
        if name.starts_with('R') && !named.iter().any(|test| test.starts_with(&prefix)) {
            problems.push(format!(
                "ARCHITECTURE.md: {name}: name a test that begins with `{prefix}`"
            ));
        } else if named.len() != 1 {
            problems.push(format!(
                "ARCHITECTURE.md: {name}: name one test, the one to read first; it names {}",
                named.len()
            ));
        }
    }
    problems
}

/// Lists paths in the code map of `architecture` that do not exist, and crates that it does not name.
pub fn code_map(architecture: &str, tree: &Tree, members: &[Member]) -> Vec<String> {
    let mut problems = Vec::new();
    let lines = architecture.lines().count();
    if lines > ARCHITECTURE_LINES {
        problems.push(format!(
            "ARCHITECTURE.md: {lines} lines, {ARCHITECTURE_LINES} are allowed; move details into rustdoc"
        ));
    }
    let map = architecture
        .split_once("## Code map")
        .map_or("", |(_, rest)| rest);
    let map = map.split("\n## ").next().unwrap_or_default();
    let spans: BTreeSet<&str> = code_spans(map).collect();
    for path in spans.iter().filter(|span| looks_like_a_path(span)) {
        if !tree.root.join(path).exists() {
            problems.push(format!(
                "ARCHITECTURE.md: code map: `{path}` does not exist"
            ));
        }
    }
    for member in members {
        let folder = format!("{}/", member.folder);
        if !spans.contains(&*folder) {
            problems.push(format!(
                "ARCHITECTURE.md: code map: say what `{folder}` is for"
            ));
        }
    }
    problems
}

fn looks_like_a_path(span: &str) -> bool {
    span.contains('/') && !span.contains(|c: char| c.is_whitespace() || "<>*:(".contains(c))
}

/// Lists the commands that the README has to name and does not.
pub fn readme(readme: &str) -> Vec<String> {
    let missing = COMMANDS
        .into_iter()
        .filter(|command| !readme.contains(command));
    missing
        .map(|command| format!("README.md: name the command `{command}`"))
        .collect()
}

/// Lists absolute paths that exist on one machine only: home folders, and the folder of this checkout.
pub fn private_paths(tree: &Tree) -> Vec<String> {
    let homes = ["home", "Users", "root"].map(|name| format!("/{name}/"));
    let root = tree.root.to_string_lossy().into_owned();
    let deep = root.matches('/').count() > 1;
    let refused: Vec<String> = homes.into_iter().chain(deep.then_some(root)).collect();
    let mut problems = Vec::new();
    for file in &tree.files {
        for (at, line) in file.text.lines().enumerate() {
            let absolute = |path: &&String| {
                let before = line.split(&***path).next().unwrap_or_default();
                line.contains(&***path)
                    && !before.ends_with(|c: char| c.is_alphanumeric() || c == '.')
            };
            if let Some(path) = refused.iter().find(absolute) {
                problems.push(format!(
                    "{}:{}: `{path}` exists on one machine only; make it relative, or an argument",
                    file.path,
                    at + 1
                ));
            }
        }
    }
    problems
}

/// The texts between backticks, line by line.
fn code_spans(markdown: &str) -> impl Iterator<Item = &str> {
    markdown
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[cfg(test)]
mod tests;
