//! Edits of the files of a source: which files a change is about, and what their texts become. The same for files on disk
//! and in trees.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{Document, FieldEdit, Problem, Problems, document::DocumentKey};
use similar::TextDiff;

use super::{Edit, EditFormat, value};
use crate::{format::Parsing, kept::Parsed};

/// One file of a source with the edits of it.
#[derive(Debug)]
pub(crate) struct FileEdits<'k, S> {
    pub(crate) state: &'k S,
    pub(crate) documents: &'k [Document],
    /// Each edit with the document that it is about.
    edits: Vec<(&'k Document, FieldEdit)>,
}

/// A file after its edits.
#[derive(Debug)]
pub(crate) struct EditedFile {
    pub(crate) text: String,
    pub(crate) documents: Vec<Document>,
}

/// Finds the files of a source that `edits` are about, sorted by path.
///
/// # Errors
/// When a document is not there.
pub(crate) fn find<'k, S>(
    source: &str,
    files: impl Iterator<Item = (&'k S, &'k Parsed)>,
    edits: &[FieldEdit],
) -> Result<Vec<FileEdits<'k, S>>, Problems> {
    let mut wanted: BTreeMap<DocumentKey, Vec<&FieldEdit>> = BTreeMap::new();
    for edit in edits {
        for key in DocumentKey::of_name(source, &edit.document) {
            wanted.entry(key).or_default().push(edit);
        }
    }
    let mut missing: BTreeSet<&str> = edits.iter().map(|edit| &*edit.document).collect();
    let mut found: Vec<FileEdits<'k, S>> = Vec::new();
    for (state, documents) in files {
        let documents = documents.as_deref().unwrap_or_default();
        let with_edits = |document: &'k Document| {
            let edits = wanted.get(document.key()).into_iter().flatten();
            edits.map(move |edit| (document, (*edit).clone()))
        };
        let edits: Vec<_> = documents.iter().flat_map(with_edits).collect();
        for (_, edit) in &edits {
            missing.remove(&*edit.document);
        }
        if !edits.is_empty() {
            found.push(FileEdits {
                state,
                documents,
                edits,
            });
        }
    }
    let problem = |name| Problem::new(format!("has no document `{name}`; correct its name"));
    match missing.is_empty() {
        true => Ok(found),
        false => Err(missing.into_iter().map(problem).collect()),
    }
}

impl<S> FileEdits<'_, S> {
    /// The name of the file in its documents.
    pub(crate) fn name(&self) -> &str {
        self.edits[0].0.file().0
    }

    /// Makes the edits of `text`, the content of the file. Only the edited fields of the edited documents differ then.
    ///
    /// # Errors
    /// As [`EditFormat::edit`], and when the text after the edits is not a file of the source.
    pub(crate) fn make<F: EditFormat>(
        &self,
        parsing: &Parsing,
        text: &[u8],
    ) -> Result<EditedFile, Problems> {
        let name = self.name();
        let text = std::str::from_utf8(text)
            .map_err(|_| Problem::new("not UTF-8; save the file as UTF-8 text").at(name, 0, 0))?;
        let edits: Vec<Edit> = self.edits.iter().map(edit).collect();
        let text =
            F::edit(text, &edits, &parsing.limits).map_err(|refused| refused.problem(name))?;
        let documents = parsing.documents::<F>(name, text.as_bytes())?;
        self.prove(name, &documents)?;
        Ok(EditedFile { text, documents })
    }

    /// Checks that each document is what it was, but for its edited fields. The edit of a text proves this of the text; a
    /// format can make other documents of it.
    fn prove(&self, name: &str, after: &[Document]) -> Result<(), Problem> {
        let same = |(before, after): (&Document, &Document)| {
            let about = self.edits.iter().filter(|(it, _)| it.key() == before.key());
            let edits: Vec<&FieldEdit> = about.map(|(_, edit)| edit).collect();
            before.key() == after.key()
                && match edits.is_empty() {
                    true => before == after,
                    false => {
                        let edited = value::edited(Some(before.root().to_json()), &edits);
                        edited == Ok(Some(after.root().to_json()))
                    }
                }
        };
        let all = self.documents.len() == after.len();
        match all && self.documents.iter().zip(after).all(same) {
            true => Ok(()),
            false => Err(Problem::new(
                "the change would do more than it says, such as rename a document; change the file by hand",
            )
            .at(name, 0, 0)),
        }
    }
}

/// The edit of a text that a field's edit is.
fn edit((document, edit): &(&Document, FieldEdit)) -> Edit {
    Edit {
        document: document.file().1,
        path: edit.path.clone(),
        was: edit.was.clone(),
        to: edit.to.clone(),
    }
}

/// The change of a file as a unified diff.
pub(crate) fn diff(file: &str, before: &str, after: &str) -> String {
    let text = TextDiff::from_lines(before, after);
    let header = (format!("a/{file}"), format!("b/{file}"));
    text.unified_diff().header(&header.0, &header.1).to_string()
}

/// The documents of a source after `edited` files have replaced those of the same names.
pub(crate) fn exchanged(documents: Vec<Document>, edited: Vec<EditedFile>) -> Vec<Document> {
    let names: BTreeSet<&str> = edited
        .iter()
        .flat_map(|file| &file.documents)
        .map(|it| it.file().0)
        .collect();
    let (_, mut documents): (Vec<_>, Vec<_>) = documents
        .into_iter()
        .partition(|document| names.contains(document.file().0));
    documents.extend(edited.into_iter().flat_map(|file| file.documents));
    documents
}
