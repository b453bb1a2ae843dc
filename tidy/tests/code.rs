//! The rules about code, applied to every Rust file of this repository.

use tidy::{all_clear, code, crates, language, modules, tree::Tree};

#[test]
fn every_file_keeps_the_house_rules() {
    let tree = Tree::read().unwrap();
    let problems: Vec<_> = tree.rust().flat_map(code::check).collect();
    all_clear(&problems);
}

#[test]
fn every_file_belongs_to_a_target() {
    let tree = Tree::read().unwrap();
    let members = crates::members().unwrap();
    let roots: Vec<_> = members
        .into_iter()
        .flat_map(|member| member.targets)
        .collect();
    assert!(roots.len() > 10, "cargo metadata reports {roots:?} only");
    all_clear(&modules::check(&tree, &roots));
}

#[test]
fn every_text_names_its_actors() {
    let tree = Tree::read().unwrap();
    all_clear(
        &tree
            .files
            .iter()
            .flat_map(language::actors)
            .collect::<Vec<_>>(),
    );
}

#[test]
fn every_public_item_of_a_library_is_documented() {
    let tree = Tree::read().unwrap();
    let members = crates::members().unwrap();
    let libraries = members.iter().filter(|member| member.is_library()).count();
    assert!(
        libraries > 10,
        "cargo metadata reports {libraries} libraries only"
    );
    let documented = |file| language::documentation(file, &members);
    all_clear(&tree.rust().flat_map(documented).collect::<Vec<_>>());
}
