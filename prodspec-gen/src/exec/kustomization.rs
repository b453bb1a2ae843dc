//! Checks that the directories from which a Kustomize overlay is built are declared as inputs. Otherwise a change of a
//! forgotten base would go unnoticed.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use plugin_sdk::{
    Problem, Problems,
    document::{Node, Value},
};

use super::task::Task;
use crate::format::{Format, Yaml};

/// The names that a kustomization file can have.
const FILES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The fields that can name directories outside of a kustomization. All others name files in it, or below it.
const FIELDS: [&str; 3] = ["resources", "bases", "components"];

/// Checks the overlay of a task, if it has one. What cannot be read is left to the program, which reports it.
///
/// # Errors
/// One problem for each directory that the overlay or one of its bases names, and that no input contains.
pub(super) fn check(task: &Task) -> Result<(), Problems> {
    let problems = task.overlay.as_deref().map(|it| undeclared(task, it));
    problems.filter(|it| !it.is_empty()).map_or(Ok(()), Err)
}

fn undeclared(task: &Task, overlay: &Path) -> Problems {
    let inputs: Vec<PathBuf> = task.input_paths().filter_map(reached).collect();
    let overlay = task.dir.clone().unwrap_or_default().join(overlay);
    let mut ahead: Vec<PathBuf> = reached(overlay).into_iter().collect();
    let mut seen = BTreeSet::new();
    let mut problems = Problems::none();
    while let Some(folder) = ahead.pop() {
        if !seen.insert(folder.clone()) {
            continue;
        }
        for file in FILES.map(|name| folder.join(name)) {
            for (named, line, column) in named_in(&file, task) {
                let Some(base) = reached(folder.join(&*named)).filter(|base| base.is_dir()) else {
                    continue;
                };
                if inputs.iter().any(|input| base.starts_with(input)) {
                    ahead.push(base);
                    continue;
                }
                let message = format!(
                    "the directory `{named}` is in no declared input, so its changes would go unnoticed; declare it with `Exec::input`"
                );
                let problem = Problem::new(message).at(file.display().to_string(), line, column);
                problems.push(task.parsing.said(problem));
            }
        }
    }
    problems
}

/// The path without links. `None`: there is nothing, as with an address on the network.
fn reached(path: PathBuf) -> Option<PathBuf> {
    path.canonicalize().ok()
}

/// What a kustomization file names in its [`FIELDS`], with lines and columns.
fn named_in(file: &Path, task: &Task) -> Vec<(Box<str>, u32, u32)> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let documents = Yaml::parse(&text, &task.parsing.limits).unwrap_or_default();
    let fields = documents.into_iter().flat_map(|root| match root.value {
        Value::Map(entries) => entries,
        _ => Vec::new(),
    });
    let wanted = fields.filter(|(name, _)| FIELDS.contains(&&*name.text));
    let items = wanted.flat_map(|(_, list)| match list.value {
        Value::Sequence(items) => items,
        _ => Vec::new(),
    });
    let named = items.filter_map(
        |Node {
             line,
             column,
             value,
         }| match value {
            Value::String(named) => Some((named, line, column)),
            _ => None,
        },
    );
    named.collect()
}
