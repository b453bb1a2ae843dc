//! Laws of editable sources.

use std::collections::BTreeMap;

use prodspec_model::Revision;

use super::Violation;
use crate::{
    ChangeId, Document, EditError, EditableSource, Proposal, Reading, SourceChange,
    document::DocumentKey,
};

type Content = (Revision, BTreeMap<DocumentKey, Document>);

/// Tests an editable source with changes that can be made one after the other. Each has to change something, and no other
/// writer may change the source meanwhile.
///
/// ```no_run
/// # async fn test(source: impl plugin_sdk::EditableSource) {
/// use plugin_sdk::{ChangeId, FieldEdit, SourceChange, conformance};
///
/// let change = |n: u32| {
///     let edit = FieldEdit::set("m.yaml#0", "replicas".parse().unwrap(), n, n + 1);
///     SourceChange::new(ChangeId::from(u128::from(n)), vec![edit], "ada", "test", Default::default())
/// };
/// conformance::editable(&source, [change(1), change(2)]).await.unwrap();
/// # }
/// ```
///
/// # Errors
/// The first law that does not hold.
pub async fn editable(
    source: &dyn EditableSource,
    changes: impl IntoIterator<Item = SourceChange>,
) -> Result<(), Violation> {
    for change in changes {
        let before = read(source).await?;
        let proposal = propose(source, &change).await?;
        if read(source).await? != before || proposal.before != before.0 {
            return Err(broken("a proposal changes nothing", &change));
        }
        if propose(source, &change).await? != proposal {
            let law = "the same change of the same content gives the same proposal";
            return Err(broken(law, &change));
        }
        names_what_differs(&proposal, &before)?;
        refuses(source, &change, &before).await?;
        let stale = Proposal::new(
            Revision("conformance-another-revision".into()),
            proposal.reading.clone(),
            "",
        );
        let moved = source.commit(&change, &stale).await;
        if !matches!(&moved, Err(EditError::Moved { now }) if *now == before.0)
            || read(source).await? != before
        {
            let law = "a commit whose proposal is of another revision changes nothing, and says so";
            return Err(broken(law, moved));
        }
        for law in [
            "after a commit the source has the content of the proposal",
            "the same commit again is one commit",
        ] {
            let committed = source.commit(&change, &proposal).await;
            let after = proposal.reading.revision.clone();
            if committed != Ok(after) || read(source).await? != keyed(proposal.reading.clone()) {
                return Err(broken(law, committed));
            }
        }
    }
    Ok(())
}

/// A proposal that names the documents that it changes forgets none.
fn names_what_differs(proposal: &Proposal, before: &Content) -> Result<(), Violation> {
    let Some(changed) = &proposal.changed else {
        return Ok(());
    };
    let (_, after) = keyed(proposal.reading.clone());
    let all = before.1.keys().chain(after.keys());
    let mut differ = all.filter(|key| before.1.get(key) != after.get(key));
    match differ.find(|key| !changed.contains(key)) {
        None => Ok(()),
        Some(key) => {
            let law = "a proposal that names what it changes names every document that differs";
            Err(broken(law, key))
        }
    }
}

/// An edit with another expected value is refused and changes nothing.
async fn refuses(
    source: &dyn EditableSource,
    change: &SourceChange,
    before: &Content,
) -> Result<(), Violation> {
    let mut wrong = change.clone();
    wrong.id = ChangeId::from(0);
    for edit in &mut wrong.edits {
        edit.was = Some("conformance: a value that is not there".into());
    }
    let proposed = source.propose(&wrong).await;
    match proposed {
        Err(EditError::Refused(_)) if read(source).await? == *before => Ok(()),
        other => {
            let law = "an edit whose expected value is not there is refused";
            Err(broken(law, other))
        }
    }
}

async fn propose(
    source: &dyn EditableSource,
    change: &SourceChange,
) -> Result<Proposal, Violation> {
    let proposal = source.propose(change).await;
    let proposal = proposal.map_err(|error| broken("a change that fits is proposed", error))?;
    match proposal.is_unchanged() {
        false => Ok(proposal),
        true => Err(broken("a change of a value changes the revision", change)),
    }
}

async fn read(source: &dyn EditableSource) -> Result<Content, Violation> {
    let reading = source.read().await;
    let reading = reading.map_err(|problems| broken("a reading does not fail", problems))?;
    Ok(keyed(reading))
}

fn keyed(reading: Reading) -> Content {
    let documents = reading.documents.into_iter();
    let documents = documents.map(|it| (it.key().clone(), it));
    (reading.revision, documents.collect())
}

fn broken(law: &'static str, found: impl std::fmt::Debug) -> Violation {
    Violation::new("the source", law, found)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard};

    use async_trait::async_trait;
    use futures::executor::block_on;
    use prodspec_model::SourceName;

    use super::*;
    use crate::{FieldEdit, FieldPath, Problem, Problems, SourceOfTruth, document::Node};

    /// One number. `fault`: the law that it breaks, from 1; 0 for none.
    struct Number {
        now: Mutex<u64>,
        fault: u8,
    }

    impl Number {
        fn lock(&self) -> MutexGuard<'_, u64> {
            self.now.lock().unwrap()
        }

        fn reading(number: u64) -> Reading {
            let document = Document::new("number", "n", 0, Node::from(serde_json::json!([number])));
            Reading::new(number.to_string(), vec![document])
        }
    }

    #[async_trait]
    impl SourceOfTruth for Number {
        fn name(&self) -> SourceName {
            SourceName("number".into())
        }

        async fn read(&self) -> Result<Reading, Problems> {
            Ok(Self::reading(*self.lock()))
        }
    }

    #[async_trait]
    impl EditableSource for Number {
        async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError> {
            let (now, edit) = (*self.lock(), &change.edits[0]);
            if edit.was != Some(now.into()) && self.fault != 1 {
                return Err(EditError::Refused(Problem::new("unexpected").into()));
            }
            let to = edit.to.as_ref().and_then(serde_json::Value::as_u64);
            let to = to.unwrap_or_default();
            if self.fault == 2 {
                *self.lock() = to;
            }
            let before = Revision(now.to_string().into());
            let proposal = Proposal::new(before, Self::reading(to), "");
            match self.fault {
                5 => Ok(proposal.changing(Vec::new())),
                _ => Ok(proposal),
            }
        }

        async fn commit(
            &self,
            _: &SourceChange,
            proposal: &Proposal,
        ) -> Result<Revision, EditError> {
            let mut number = self.lock();
            let now = Revision(number.to_string().into());
            let after = proposal.reading.revision.clone();
            if after == now && self.fault != 4 {
                return Ok(after);
            }
            if proposal.before != now && self.fault != 3 {
                return Err(EditError::Moved { now });
            }
            *number = after.0.parse().unwrap();
            if self.fault == 4 {
                *number += 1;
            }
            Ok(after)
        }
    }

    fn laws(fault: u8) -> Result<(), Violation> {
        let number = Number {
            now: Mutex::new(1),
            fault,
        };
        let change = |n: u64| {
            let edit = FieldEdit::set("n#0", FieldPath::default().index(0), n, n + 1);
            let id = ChangeId::from(u128::from(n));
            SourceChange::new(id, vec![edit], "ada", "test", Default::default())
        };
        block_on(editable(&number, [change(1), change(2)]))
    }

    #[test]
    fn r34_source_that_keeps_the_laws_passes_and_each_broken_law_is_reported() {
        laws(0).unwrap();
        let broken: Vec<_> = (1..=5)
            .map(|fault| laws(fault).unwrap_err().law())
            .collect();
        assert_eq!(
            broken,
            [
                "an edit whose expected value is not there is refused",
                "a proposal changes nothing",
                "a commit whose proposal is of another revision changes nothing, and says so",
                "after a commit the source has the content of the proposal",
                "a proposal that names what it changes names every document that differs",
            ]
        );
    }
}
