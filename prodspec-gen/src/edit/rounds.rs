//! Makes planned operations, as many at once as lie apart, and proves each result by reading it again.

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

/// # Errors
/// When `text` is longer than the limit.
pub(super) fn check_length(text: &str, limits: &Limits) -> Result<(), Refused> {
    let bytes = text.len() as u64;
    match bytes > limits.bytes {
        true => Err(Refused::TooLarge {
            bytes,
            limit: limits.bytes,
        }),
        false => Ok(()),
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
    /// Makes the operations that lie apart, and returns the others.
    fn together(&mut self, waiting: Vec<Operation>) -> Result<Vec<Operation>, Refused> {
        let (mut now, mut later) = (Vec::<Operation>::new(), Vec::<Operation>::new());
        let mut splices: Vec<Splice> = Vec::new();
        for operation in waiting {
            let container = operation.container();
            let first = now.first().unwrap_or(&operation);
            let waits = operation.phase() != first.phase()
                || later.iter().any(|it| container.overlaps(&it.path))
                || now
                    .iter()
                    .any(|it| it.document == operation.document && it.container() == container);
            let ways = if waits {
                Vec::new()
            } else {
                self.ways().of(&operation)?
            };
            let free = |way: &&Vec<Splice>| {
                !way.iter()
                    .any(|one| splices.iter().any(|it| it.touches(one)))
            };
            match ways.first().filter(free) {
                Some(way) => {
                    splices.extend(way.iter().cloned());
                    now.push(operation);
                }
                None if now.is_empty() => {
                    return Err(self
                        .ways()
                        .unproven(&operation, "there is no way to write it here"));
                }
                None => later.push(operation),
            }
        }
        match self.attempt(&now, splices) {
            Ok(()) => Ok(later),
            Err(_) => {
                let mut rest = now.split_off(1);
                rest.append(&mut later);
                let one = now.into_iter().next();
                one.map_or(Ok(()), |one| self.alone(one))?;
                Ok(rest)
            }
        }
    }

    /// Makes one operation in the first way that can be proven.
    fn alone(&mut self, operation: Operation) -> Result<(), Refused> {
        let mut why = "there is no way to write it here".to_owned();
        let operations = [operation];
        for (nth, way) in self.ways().of(&operations[0])?.into_iter().enumerate() {
            match self.attempt(&operations, way) {
                Ok(()) => return Ok(()),
                Err(Refuted::TooLarge(refused)) => return Err(refused),
                Err(Refuted::Because(reason)) if nth == 0 => why = reason,
                Err(Refuted::Because(_)) => {}
            }
        }
        Err(self.ways().unproven(&operations[0], &why))
    }

    fn ways(&self) -> Ways<'_> {
        Ways {
            text: &self.text,
            file: &self.file,
            limits: self.limits,
            syntax: self.syntax,
        }
    }

    /// Splices, reads the result, and keeps it if it is proven.
    fn attempt(&mut self, operations: &[Operation], splices: Vec<Splice>) -> Result<(), Refuted> {
        let kept = |at: &&std::ops::Range<usize>| {
            let gone =
                |it: &Splice| it.at.start <= at.start && at.end <= it.at.end && !it.at.is_empty();
            !splices.iter().any(gone)
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
