//! Laws of sources of truth.

use std::collections::BTreeMap;

use prodspec_model::Revision;

use super::Violation;
use crate::{Document, Reading, SourceOfTruth, document::DocumentKey};

type Documents = BTreeMap<DocumentKey, Document>;

/// Tests a source while its content changes: each of `changes` changes it, and then every earlier revision is asked
/// about. The content must not change otherwise.
///
/// ```
/// # use async_trait::async_trait;
/// # use plugin_sdk::{Document, Problems, Reading, SourceOfTruth, document::Node};
/// use plugin_sdk::conformance;
/// use std::sync::{Arc, Mutex};
///
/// /// A number that a program sets.
/// struct Number(Arc<Mutex<u32>>);
/// # #[async_trait]
/// # impl SourceOfTruth for Number {
/// #     fn name(&self) -> prodspec_model::SourceName { prodspec_model::SourceName("number".into()) }
/// #     async fn read(&self) -> Result<Reading, Problems> {
/// #         let now = *self.0.lock().unwrap();
/// #         let document = Document::new("number", "number", 0, Node::from(serde_json::Value::from(now)));
/// #         Ok(Reading::new(now.to_string(), vec![document]))
/// #     }
/// # }
///
/// let number = Arc::new(Mutex::new(1));
/// let set = |to| { let number = number.clone(); move || *number.lock().unwrap() = to };
/// let source = Number(number.clone());
/// futures::executor::block_on(conformance::source(&source, [set(2), set(3), set(2)])).unwrap();
/// ```
///
/// # Errors
/// The first law that does not hold.
pub async fn source<C: FnOnce()>(
    source: &dyn SourceOfTruth,
    changes: impl IntoIterator<Item = C>,
) -> Result<(), Violation> {
    let (revision, documents) = whole(source).await?;
    let mut earlier = BTreeMap::from([(revision, documents)]);
    for change in changes {
        change();
        let (revision, documents) = whole(source).await?;
        for (known, before) in &earlier {
            let update = source.read_since(known).await;
            let update = update.map_err(|problems| broken("a reading does not fail", problems))?;
            let now = update.applied_to(known, before);
            if now != (revision.clone(), documents.clone()) {
                let law = "what has changed since a revision, applied to its documents, gives those of a whole reading";
                return Err(broken(law, format_args!("since {known:?}: {now:?}")));
            }
        }
        if let Some(other) = earlier.insert(revision.clone(), documents.clone())
            && other != documents
        {
            let law = "equal revisions have equal documents";
            return Err(broken(law, revision));
        }
    }
    Ok(())
}

/// Reads all documents. Each has the name of the source and a key of its own.
async fn whole(source: &dyn SourceOfTruth) -> Result<(Revision, Documents), Violation> {
    let reading = source.read().await;
    let reading = reading.map_err(|problems| broken("a reading does not fail", problems))?;
    let Reading {
        revision,
        documents,
    } = reading;
    let (name, many) = (source.name(), documents.len());
    if let Some(other) = documents.iter().find(|it| it.key().source != name) {
        let law = "every document has the name of the source";
        return Err(broken(law, other.key()));
    }
    let keyed = documents.into_iter().map(|it| (it.key().clone(), it));
    let documents: Documents = keyed.collect();
    if documents.len() != many {
        let law = "every document has a key of its own";
        return Err(broken(law, documents.keys().collect::<Vec<_>>()));
    }
    Ok((revision, documents))
}

fn broken(law: &'static str, found: impl std::fmt::Debug) -> Violation {
    Violation::new("the source", law, found)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use futures::executor::block_on;
    use prodspec_model::SourceName;

    use super::*;
    use crate::{Delta, Problems, Update, document::Node};

    /// Numbered texts. `forgets`: its updates do not tell what is gone.
    struct Texts {
        all: Mutex<BTreeMap<u32, u32>>,
        forgets: bool,
    }

    impl Texts {
        fn new(forgets: bool) -> Self {
            let all = Mutex::new([(1, 1), (2, 1)].into());
            Self { all, forgets }
        }

        fn changes(&self) -> [Box<dyn FnOnce() + '_>; 2] {
            let change = |change: fn(&mut BTreeMap<u32, u32>)| -> Box<dyn FnOnce() + '_> {
                Box::new(move || change(&mut self.all.lock().unwrap()))
            };
            let edit = change(|all| all.extend([(1, 2)]));
            [edit, change(|all| all.retain(|no, _| *no != 2))]
        }
    }

    #[async_trait]
    impl SourceOfTruth for Texts {
        fn name(&self) -> SourceName {
            SourceName("texts".into())
        }

        async fn read(&self) -> Result<Reading, Problems> {
            let all = self.all.lock().unwrap();
            let document = |(no, text): (&u32, &u32)| {
                Document::new(
                    "texts",
                    "t",
                    *no,
                    Node::from(serde_json::Value::from(*text)),
                )
            };
            let documents = all.iter().map(document).collect();
            Ok(Reading::new(format!("{all:?}"), documents))
        }

        async fn read_since(&self, _: &Revision) -> Result<Update, Problems> {
            let Reading {
                revision,
                documents,
            } = self.read().await?;
            let there: Vec<_> = documents.iter().map(|it| it.key().clone()).collect();
            let key = |index| DocumentKey::at(&self.name().0, "t", index);
            let gone = [1, 2].map(key).into_iter();
            let gone = gone.filter(|key| !self.forgets && !there.contains(key));
            let gone = gone.collect();
            Ok(Update::Delta(Delta::new(revision.0, documents, gone)))
        }
    }

    #[test]
    fn r43_source_with_right_updates_keeps_the_laws() {
        let texts = Texts::new(false);
        block_on(source(&texts, texts.changes())).unwrap();
    }

    #[test]
    fn r43_source_that_forgets_what_is_gone_is_reported() {
        let texts = Texts::new(true);
        let violation = block_on(source(&texts, texts.changes())).unwrap_err();
        assert!(
            violation.to_string().contains("whole reading"),
            "{violation}"
        );
    }
}
