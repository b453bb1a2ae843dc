//! Rules about what a crate shows to its users: metadata for publishing, and a README whose example is compiled.

use crate::{crates::Member, tree::Tree};

/// Keys that the manifest of a published crate has, its own or the workspace's.
const METADATA: [&str; 7] = [
    "description",
    "license",
    "repository",
    "keywords",
    "categories",
    "rust-version",
    "edition",
];

/// Lists the missing keys and documents of the crates that are published.
pub fn check(members: &[Member], tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for Member { folder, .. } in members.iter().filter(|member| member.published) {
        let text = |file: &str| tree.text(&format!("{folder}/{file}")).unwrap_or_default();
        let manifest = text("Cargo.toml");
        for key in METADATA {
            if !manifest.lines().any(|line| line.starts_with(key)) {
                problems.push(format!("{folder}/Cargo.toml: add `{key}`"));
            }
        }
        if !text("README.md").contains("\n```rust\n") {
            problems.push(format!(
                "{folder}/README.md: say in ten lines what the crate is for, with an example"
            ));
        }
        if !text("src/lib.rs").contains("#![doc = include_str!(\"../README.md\")]") {
            problems.push(format!(
                "{folder}/src/lib.rs: include README.md, so that its example is compiled"
            ));
        }
    }
    problems
}
