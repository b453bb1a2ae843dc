//! Proves that a text which was read again differs from the text before only where it was changed.

use super::{
    plan::Operation,
    refused::Refused,
    tree::{File, Node},
};

/// Why a result is not accepted.
pub(super) enum Refuted {
    /// It is longer than the limit.
    TooLarge(Refused),
    /// A part of the proof failed.
    Because(String),
}

pub(super) fn because(reason: &str) -> Refuted {
    Refuted::Because(reason.into())
}

/// Proves that `new` is `old` with `operations` made and nothing else changed: neither values, keys and their order nor
/// anchors, aliases and tags.
///
/// The order of entries does not count if it is not `ordered`: TOML has values before the tables of a table.
pub(super) fn prove(
    old: &File,
    new: &File,
    operations: &[Operation],
    ordered: bool,
) -> Result<(), Refuted> {
    let changed = |documents: &[Node]| {
        let mut documents = documents.to_vec();
        for Operation {
            document,
            path,
            change,
        } in operations
        {
            let root = documents.get_mut(*document as usize)?;
            root.apply(path.steps(), change)?;
        }
        Some(documents)
    };
    let same = |mut expected: Vec<Node>, found: &[Node]| {
        let mut found = found.to_vec();
        if !ordered {
            expected.iter_mut().chain(&mut found).for_each(Node::sort);
        }
        expected.len() == found.len() && expected.iter().zip(&found).all(|(a, b)| a.same(b))
    };
    let expected = changed(&old.documents).ok_or_else(|| because("the field is not there"))?;
    if !same(expected, &new.documents) {
        return Err(because(
            "another value would change, or the value would be read differently",
        ));
    }
    match (&old.read, &new.read) {
        (None, None) => Ok(()),
        (Some(old), Some(new)) if changed(old).is_some_and(|it| same(it, new)) => Ok(()),
        _ => Err(because("the source would read another value")),
    }
}
