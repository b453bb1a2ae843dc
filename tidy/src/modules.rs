//! Every Rust file is part of a target: a file without a `mod` declaration is never compiled, and its tests never run.

use std::collections::BTreeSet;

use crate::tree::{File, Tree};

/// Lists the files that no target compiles. `roots` are the first files of all targets.
pub fn check(tree: &Tree, roots: &[String]) -> Vec<String> {
    let compiled = compiled(tree, roots);
    let lost = tree.rust().filter(|file| !compiled.contains(&file.path));
    let problem = |file: &File| {
        format!(
            "{}: no target compiles it: declare it with `mod`",
            file.path
        )
    };
    lost.map(problem).collect()
}

fn compiled(tree: &Tree, roots: &[String]) -> BTreeSet<String> {
    let mut compiled = BTreeSet::new();
    let mut waiting: Vec<(String, String)> = roots
        .iter()
        .map(|root| (root.clone(), parent(root)))
        .collect();
    while let Some((path, folder)) = waiting.pop() {
        let Some(text) = tree.text(&path) else {
            continue;
        };
        if compiled.insert(path.clone())
            && let Ok(file) = syn::parse_file(text)
        {
            named(&file.items, &path, &folder, &mut waiting);
        }
    }
    compiled
}

/// Appends to `waiting` each file that `items` may declare, with the folder of its own modules. The caller skips files
/// that do not exist.
fn named(items: &[syn::Item], path: &str, folder: &str, waiting: &mut Vec<(String, String)>) {
    for item in items {
        let syn::Item::Mod(module) = item else {
            continue;
        };
        let inner = format!("{folder}/{}", module.ident);
        if let Some((_, items)) = &module.content {
            named(items, path, &inner, waiting);
        } else if let Some(at) = module.attrs.iter().find_map(path_attribute) {
            let file = format!("{}/{at}", parent(path));
            waiting.push((file.clone(), parent(&file)));
        } else {
            waiting.push((format!("{inner}.rs"), inner.clone()));
            waiting.push((format!("{inner}/mod.rs"), inner));
        }
    }
}

fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    match &pair.value {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) if pair.path.is_ident("path") => Some(text.value()),
        _ => None,
    }
}

fn parent(path: &str) -> String {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_mod_declaration_are_found() {
        let files = [
            ("a/src/lib.rs", "mod b; mod c { mod d; } mod e;"),
            ("a/src/b.rs", "#[cfg(test)] mod tests;"),
            ("a/src/b/tests.rs", ""),
            ("a/src/c/d.rs", ""),
            ("a/src/e/mod.rs", "mod f;"),
            ("a/src/e/f.rs", ""),
            ("a/src/e/tests.rs", "#[test] fn never_runs() {}"),
            ("a/tests/it.rs", "#[path = \"../src/g.rs\"] mod g;"),
            ("a/tests/lost/mod.rs", ""),
        ];
        let file = |(path, text): (&str, &str)| File {
            path: path.into(),
            text: text.into(),
        };
        let tree = Tree {
            root: "/".into(),
            files: files.map(file).into(),
        };
        let problems = check(&tree, &["a/src/lib.rs".into(), "a/tests/it.rs".into()]);
        let lost: Vec<_> = problems
            .iter()
            .filter_map(|problem| problem.split(':').next())
            .collect();
        assert_eq!(lost, ["a/src/e/tests.rs", "a/tests/lost/mod.rs"]);
    }
}
