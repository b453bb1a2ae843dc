//! Makes planned operations, as many at once as lie apart, and proves each result by reading it again.

use std::ops::Range;

use serde_json::Value as Json;

use super::{
    Edit,
    plan::{Operation, plan},
    proof::{Refuted, because, prove},
    refused::Refused,
    text::{Splice, splice},
    tree::File,
    ways::{Syntax, Ways},
    write::Dialect,
};
use crate::format::Limits;

/// Makes all `edits`, or none.
pub(super) fn edit(
    text: &str,
    edits: &[Edit],
    limits: &Limits,
    syntax: Syntax,
) -> Result<String, Refused> {
    check_length(text, limits)?;
    let file = (syntax.read)(text, limits).map_err(Refused::Unparsed)?;
    let deep = |edit: &&Edit| {
        edit.to
            .as_ref()
            .is_some_and(|to| is_deeper(to, limits.depth))
    };
    if let Some(edit) = edits.iter().find(deep) {
        return Err(Refused::NotProven {
            path: edit.path.clone(),
            line: 1,
            reason: format!(
                "the new value is nested deeper than {} levels",
                limits.depth
            ),
        });
    }
    let mut waiting = plan(text, &file, edits, limits.expansion)?;
    let mut round = Round {
        text: text.to_owned(),
        file,
        limits,
        syntax,
    };
    while !waiting.is_empty() {
        waiting = round.together(waiting)?;
    }
    Ok(round.text)
}

/// Whether a value has more than `levels` levels.
fn is_deeper(json: &Json, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else {
        return true;
    };
    match json {
        Json::Array(items) => items.iter().any(|item| is_deeper(item, levels)),
        Json::Object(entries) => entries.values().any(|value| is_deeper(value, levels)),
        _ => false,
    }
}

/// # Errors
/// When `text` is longer than the limit.
fn check_length(text: &str, limits: &Limits) -> Result<(), Refused> {
    let bytes = text.len() as u64;
    match bytes > limits.bytes {
        true => Err(Refused::TooLarge {
            bytes,
            limit: limits.bytes,
        }),
        false => Ok(()),
    }
}

const NO_WAY: &str = "there is no way to write it here";

/// Operations that are made together, with their splices, and those that wait.
#[derive(Default)]
struct Batch {
    now: Vec<Operation>,
    ways: Vec<Vec<Splice>>,
    later: Vec<Operation>,
}

impl Batch {
    /// Whether an operation has to be made after others, before its splices can be known.
    fn waits(&self, operation: &Operation) -> bool {
        let container = operation.container();
        let first = self.now.first().unwrap_or(operation);
        let replaced = |it: &Operation| it.phase() == 0 && it.path == operation.path;
        operation.phase() != first.phase()
            || self.later.iter().any(|it| container.overlaps(&it.path))
            || self.now.iter().any(replaced)
    }

    /// Whether splices lie apart from those of the batch. What is added to one map or list is inserted at one place, in
    /// order.
    fn is_free(&self, operation: &Operation, way: &[Splice]) -> bool {
        let container = operation.container();
        let apart = |(other, splices): (&Operation, &Vec<Splice>)| {
            let beside = operation.phase() == 1
                && other.document == operation.document
                && other.container() == container;
            let free = |one: &Splice| {
                let mut splices = splices.iter();
                splices
                    .all(|it| !one.touches(it) || (beside && one.at == it.at && one.at.is_empty()))
            };
            way.iter().all(free)
        };
        self.now.iter().zip(&self.ways).all(apart)
    }
}

/// A text between operations.
struct Round<'l> {
    text: String,
    file: File,
    limits: &'l Limits,
    syntax: Syntax,
}

impl Round<'_> {
    /// Makes the operations that lie apart, and returns the others. Of operations that cannot be proven together, the
    /// first half is tried, so that one of many does not cost a reading for each.
    fn together(&mut self, waiting: Vec<Operation>) -> Result<Vec<Operation>, Refused> {
        let Batch {
            mut now,
            ways,
            later,
        } = self.batch(waiting)?;
        let mut count = now.len();
        while count > 1 && self.attempt(&now[..count], ways[..count].concat()).is_err() {
            count /= 2;
        }
        let mut rest = now.split_off(count);
        if count == 1 {
            self.alone(&now)?;
        }
        rest.extend(later);
        Ok(rest)
    }

    /// Chooses the operations of the first phase whose splices lie apart.
    fn batch(&self, waiting: Vec<Operation>) -> Result<Batch, Refused> {
        let (mut batch, all) = (Batch::default(), self.ways());
        for operation in waiting {
            let mut ways = match batch.waits(&operation) {
                true => Vec::new(),
                false => all.of(&operation)?,
            };
            let way = (!ways.is_empty()).then(|| ways.swap_remove(0));
            match way.filter(|way| batch.is_free(&operation, way)) {
                Some(way) => {
                    batch.ways.push(way);
                    batch.now.push(operation);
                }
                None if batch.now.is_empty() => {
                    return Err(all.unproven(&operation, NO_WAY));
                }
                None => batch.later.push(operation),
            }
        }
        Ok(batch)
    }

    /// Makes one operation in the first way that can be proven.
    fn alone(&mut self, operation: &[Operation]) -> Result<(), Refused> {
        let [one] = operation else {
            return Ok(());
        };
        let mut why = NO_WAY.to_owned();
        for (nth, way) in self.ways().of(one)?.into_iter().enumerate() {
            match self.attempt(operation, way) {
                Ok(()) => return Ok(()),
                Err(Refuted::TooLarge(refused)) => return Err(refused),
                Err(Refuted::Because(reason)) if nth == 0 => why = reason,
                Err(Refuted::Because(_)) => {}
            }
        }
        Err(self.ways().unproven(one, &why))
    }

    fn ways(&self) -> Ways<'_> {
        Ways::new(&self.text, &self.file, self.limits, self.syntax.dialect)
    }

    /// Splices, reads the result, and keeps it if it is proven.
    fn attempt(&mut self, operations: &[Operation], splices: Vec<Splice>) -> Result<(), Refuted> {
        let mut gone: Vec<_> = splices.iter().map(|splice| &splice.at).collect();
        gone.retain(|at| !at.is_empty());
        gone.sort_by_key(|at| at.start);
        let kept = |comment: &&Range<usize>| {
            let nth = gone.partition_point(|at| at.start <= comment.start);
            nth.checked_sub(1)
                .is_none_or(|nth| gone[nth].end < comment.end)
        };
        let kept = self.file.comments.iter().filter(kept);
        let comments: Vec<&str> = kept.map(|at| &self.text[at.clone()]).collect();
        let new =
            splice(&self.text, splices.clone()).ok_or_else(|| because("two changes overlap"))?;
        check_length(&new, self.limits).map_err(Refuted::TooLarge)?;
        let file = (self.syntax.read)(&new, self.limits);
        let file = file
            .map_err(|problem| Refuted::Because(format!("the result does not parse: {problem}")))?;
        prove(
            &self.file,
            &file,
            operations,
            self.syntax.dialect != Dialect::Toml,
        )?;
        let found: Vec<&str> = file.comments.iter().map(|at| &new[at.clone()]).collect();
        if comments != found {
            return Err(because("a comment would be lost or changed"));
        }
        (self.text, self.file) = (new, file);
        Ok(())
    }
}
