//! The ratchets, applied to this repository.

use tidy::{
    all_clear, crates, figures,
    measures::{SECTIONS, measure},
    tree::Tree,
};

#[test]
fn figures_of_the_code_only_fall() {
    let tree = Tree::read().unwrap();
    let present = measure(&tree, &crates::members().unwrap());
    if std::env::var_os("FIGURES").is_some_and(|value| value == "write") {
        let text = figures::render(&SECTIONS, &present);
        std::fs::write(tree.root.join(figures::FILE), text).unwrap();
        return;
    }
    let stored = tree.text(figures::FILE).unwrap_or_default();
    all_clear(&figures::check(&SECTIONS, &present, stored));
}
