//! Circles of modules: modules of one folder that import each other. Neither can be understood alone.
//!
//! Test code does not count, and neither do imports between a module and its parent.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::{algo::tarjan_scc, graphmap::DiGraphMap};
use syn::visit::{self, Visit};

use crate::tree::{File, Tree};

/// A circle: the folder, relative to the repository's root, and its modules in order.
type Circle = (String, Vec<String>);

/// Imports between the modules of each folder.
type Imports = BTreeMap<String, BTreeSet<(String, String)>>;

/// Lists the circles of modules in the folders of all `crates`.
pub fn check(tree: &Tree, crates: &[String]) -> Vec<String> {
    let mut found: BTreeSet<Circle> = BTreeSet::new();
    for folder in crates {
        for (folder, imports) in imports(tree, &format!("{folder}/src")) {
            let circles = circles(&imports);
            found.extend(circles.into_iter().map(|circle| (folder.clone(), circle)));
        }
    }
    let listed = found.iter().map(|(folder, modules)| {
        let names = modules.join(", ");
        format!(
            "{folder}: {names} import each other: move what they share into a module that imports none of them"
        )
    });
    listed.collect()
}

/// Returns the groups of modules that import each other, directly or through others.
fn circles(imports: &BTreeSet<(String, String)>) -> Vec<Vec<String>> {
    let edges = imports
        .iter()
        .map(|(from, to)| (from.as_str(), to.as_str()));
    let graph: DiGraphMap<&str, ()> = edges.collect();
    let groups = tarjan_scc(&graph).into_iter();
    let circles = groups.filter(|group| group.len() > 1);
    let named = circles.map(|group| {
        let names: BTreeSet<String> = group.into_iter().map(str::to_owned).collect();
        names.into_iter().collect()
    });
    named.collect()
}

/// Collects the imports between modules of each folder under `root`, such as `runtime/src`.
fn imports(tree: &Tree, root: &str) -> Imports {
    let prefix = format!("{root}/");
    let own = |file: &&File| file.path.starts_with(&prefix) && !file.is_test();
    let files: Vec<(&File, Vec<String>)> = tree
        .rust()
        .filter(own)
        .map(|file| (file, module_of(&file.path[prefix.len()..])))
        .collect();
    let modules: BTreeSet<Vec<String>> = files.iter().flat_map(|(_, of)| ancestors(of)).collect();
    let mut imports = Imports::new();
    for (file, of) in &files {
        let Ok(syntax) = syn::parse_file(&file.text) else {
            continue;
        };
        let mut paths = Paths {
            module: of.clone(),
            found: BTreeSet::new(),
        };
        paths.visit_file(&syntax);
        for path in paths.found {
            let Some(parted) = of.iter().zip(&path).position(|(own, other)| own != other) else {
                continue;
            };
            let (from, to) = (&of[parted], &path[parted]);
            if modules.contains(&path[..=parted]) {
                let folder = std::iter::once(root).chain(of[..parted].iter().map(String::as_str));
                let folder = folder.collect::<Vec<_>>().join("/");
                let of_folder = imports.entry(folder).or_default();
                of_folder.insert((from.clone(), to.clone()));
            }
        }
    }
    imports
}

/// Returns the path of the module in a file, such as `["kernel", "pin"]` for `kernel/pin.rs`.
fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs");
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    let is_root = |name: &String| name == "mod" || name == "lib" || name == "main";
    if module.last().is_some_and(is_root) {
        module.pop();
    }
    module
}

fn ancestors(module: &[String]) -> Vec<Vec<String>> {
    (1..=module.len()).map(|n| module[..n].to_vec()).collect()
}

/// The paths that a file names from the root of its crate or from a module above.
struct Paths {
    /// The module that is visited.
    module: Vec<String>,
    found: BTreeSet<Vec<String>>,
}

impl Paths {
    /// Notes a path, if it leads out of the module.
    fn note(&mut self, path: &[String]) {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let start = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("super") if ups <= self.module.len() => {
                self.module[..self.module.len() - ups].to_vec()
            }
            _ => return,
        };
        let rest = path[ups.max(1)..].iter().cloned();
        self.found.insert(start.into_iter().chain(rest).collect());
    }

    fn note_tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            path.push(name.to_string());
            path
        };
        match tree {
            syn::UseTree::Path(path) => self.note_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.note(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.note(&with(&name.ident)),
            syn::UseTree::Glob(_) => self.note(before),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.note_tree(before, tree);
                }
            }
        }
    }
}

impl<'a> Visit<'a> for Paths {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.note_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        self.note(&parts);
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Ident>()
                    .is_ok_and(|ident| ident == "test")
        };
        if module.attrs.iter().any(is_test) {
            return;
        }
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).into(),
            text: (*text).into(),
        };
        Tree {
            root: "/".into(),
            files: files.iter().map(file).collect(),
        }
    }

    #[test]
    fn modules_that_import_each_other_are_found_through_others_and_across_folders() {
        let tree = tree(&[
            ("a/src/lib.rs", "mod b; mod c; mod d;"),
            ("a/src/b/mod.rs", "mod x; use super::c::C;"),
            ("a/src/b/x.rs", "fn x() { crate::d::f(); super::y(); }"),
            ("a/src/c.rs", "use super::{Root, d::{D, E}};"),
            ("a/src/d.rs", "use crate::b::x::X; struct Y(super::Root);"),
        ]);
        let problems = check(&tree, &["a".into()]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("a/src: b, c, d import each other"));
    }

    #[test]
    fn tests_parents_and_children_make_no_circle() {
        let tree = tree(&[
            ("a/src/lib.rs", "mod b; mod c; use b::B;"),
            ("a/src/b.rs", "#[cfg(test)] mod tests { use crate::c::C; }"),
            ("a/src/c.rs", "use super::b::B; use super::Root;"),
            ("a/src/b/tests.rs", "use crate::c::C;"),
        ]);
        assert_eq!(check(&tree, &["a".into()]), Vec::<String>::new());
    }
}
