//! The rules about documents, applied to this repository.

use std::collections::BTreeSet;

use tidy::{all_clear, code, crates, documents, operate, tree::Tree};

#[test]
fn every_rule_and_invariant_has_a_named_test() {
    let tree = Tree::read().unwrap();
    let tests: BTreeSet<String> = tree
        .rust()
        .flat_map(|file| code::test_names(&file.text))
        .collect();
    let architecture = tree.text("ARCHITECTURE.md").unwrap();
    all_clear(&documents::guarded(architecture, &tests));
}

#[test]
fn the_code_map_is_correct_and_complete() {
    let tree = Tree::read().unwrap();
    let architecture = tree.text("ARCHITECTURE.md").unwrap();
    let members = crates::members().unwrap();
    all_clear(&documents::code_map(architecture, &tree, &members));
}

#[test]
fn the_readme_names_the_two_commands() {
    let tree = Tree::read().unwrap();
    let readme = tree.text("README.md").unwrap_or_default();
    all_clear(&documents::readme(readme));
}

#[test]
fn no_file_contains_a_path_of_one_machine() {
    all_clear(&documents::private_paths(&Tree::read().unwrap()));
}

#[test]
fn every_log_line_and_metric_is_explained_in_operate_md() {
    all_clear(&operate::check(&Tree::read().unwrap()));
}
