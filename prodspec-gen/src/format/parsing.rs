//! How the text of a source becomes documents: UTF-8, complete, within the limits, with problems that name source and
//! position. The same for a file and for the output of a program.

use std::{collections::BTreeMap, sync::Arc};

use plugin_sdk::{
    Document, EditError, Problem, Problems,
    document::{DocumentKey, FieldPath, Value},
};

use super::{Format, Limits, template, wrong};

/// Why a document has no name.
const NAMED_BY_TEMPLATE: &str = "gives the document its name and looks like a template; render it first, for example with an exec source, or declare the source as rendered";

/// The settings that decide how a source parses its texts.
#[derive(Debug, Clone)]
pub(crate) struct Parsing {
    /// The name of the source.
    pub(crate) source: Arc<str>,
    pub(crate) limits: Limits,
    /// Whether the format's end marker is required.
    pub(crate) end_marker: bool,
    /// The field that gives each document its name. `None`: documents are known by their place.
    pub(crate) named_by: Option<FieldPath>,
    pub(crate) origin: Origin,
}

/// Where a text comes from. Problems say what to do about it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    File,
    #[cfg(unix)]
    Program,
}

impl Parsing {
    /// Takes other limits. What was declared as rendered stays so.
    pub(crate) fn limit(&mut self, limits: Limits) {
        let rendered = self.limits.rendered || limits.rendered;
        self.limits = Limits { rendered, ..limits };
    }

    /// The documents in the bytes of one text that is reported as `path`. No document if there are only comments.
    pub(crate) fn documents<F: Format>(
        &self,
        path: &str,
        bytes: &[u8],
    ) -> Result<Vec<Document>, Problems> {
        let binary = F::parse_bytes(bytes, &self.limits);
        let content = match binary {
            Some(_) => bytes,
            None => bytes.trim_ascii(),
        };
        let is_empty = content.is_empty();
        let nodes = binary.unwrap_or_else(|| {
            let text = utf8(bytes, self.origin)?;
            if self.end_marker {
                declares_end::<F>(text, self.origin)?;
            }
            F::parse(text, &self.limits)
        });
        let place = |mut problem: Problem| {
            problem.document = path.to_owned();
            self.said(problem)
        };
        let nodes = nodes.map_err(place)?;
        if is_empty {
            return Err(self.empty(path).into());
        }
        let numbered = (0..).zip(nodes);
        let documents =
            numbered.map(|(index, root)| Document::new(&self.source, path, index, root));
        let documents = match &self.named_by {
            Some(field) => self.named(field, documents),
            None => self.named_as::<F>(documents),
        }?;
        self.check_once(&documents)?;
        Ok(documents)
    }

    /// Checks that no two documents of one text have the same name.
    fn check_once(&self, documents: &[Document]) -> Result<(), Problems> {
        let mut seen: BTreeMap<&DocumentKey, &Document> = BTreeMap::new();
        let mut problems = Problems::none();
        for document in documents {
            if let Some(other) = seen.insert(document.key(), document) {
                let message = format!("has the same name as {}; rename one", other.place());
                problems.push(self.said(document.problem(message)));
            }
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        }
    }

    /// Gives each document the name that it has in its format.
    fn named_as<F: Format>(
        &self,
        documents: impl Iterator<Item = Document>,
    ) -> Result<Vec<Document>, Problems> {
        let (mut named, mut problems) = (Vec::new(), Problems::none());
        for document in documents {
            match F::named(document, &self.limits) {
                Ok(document) => named.push(document),
                Err(found) => problems.extend(self.said_all(found)),
            }
        }
        match problems.is_empty() {
            true => Ok(named),
            false => Err(problems),
        }
    }

    /// Gives each document the name that its `field` has.
    fn named(
        &self,
        field: &FieldPath,
        documents: impl Iterator<Item = Document>,
    ) -> Result<Vec<Document>, Problems> {
        let (mut named, mut problems) = (Vec::new(), Problems::none());
        for document in documents {
            match document.root().at(field).map(|node| &node.value) {
                Some(Value::String(name)) if self.is_template(name) => {
                    let message = format!("`{name}` {NAMED_BY_TEMPLATE}");
                    let problem = document.problem_at(&field.to_string(), message);
                    problems.push(self.said(problem));
                }
                Some(Value::String(name)) if !name.is_empty() => {
                    let name = name.clone();
                    named.push(document.known_as(name));
                }
                _ => {
                    let message = "gives the document its name, and must be a text; add it";
                    let problem = document.problem_at(&field.to_string(), message);
                    problems.push(self.said(problem));
                }
            }
        }
        match problems.is_empty() {
            true => Ok(named),
            false => Err(problems),
        }
    }

    /// Whether a name shows that its text was not rendered.
    fn is_template(&self, name: &str) -> bool {
        !self.limits.rendered && template::expression(name).is_some()
    }

    /// The problem for a text reported as `path` without a document, which may have been cut off before its first byte.
    pub(crate) fn empty(&self, path: &str) -> Problem {
        let what = self.origin.empty();
        let message = format!("{what}; to remove everything on purpose, see Turndown");
        self.said(Problem::new(message).at(path, 1, 1))
    }

    /// A problem, marked with the name of the source.
    pub(crate) fn said(&self, problem: Problem) -> Problem {
        problem.by(format!("source {}", self.source))
    }

    /// All problems, each marked with the name of the source.
    pub(crate) fn said_all(&self, problems: Problems) -> Problems {
        let said = problems.into_iter().map(|problem| self.said(problem));
        said.collect()
    }

    /// An error of an edit, with its problems marked with the name of the source.
    pub(crate) fn said_by(&self, error: EditError) -> EditError {
        match error {
            EditError::Refused(problems) => EditError::Refused(self.said_all(problems)),
            EditError::Failed(problems) => EditError::Failed(self.said_all(problems)),
            EditError::Unknown(problems) => EditError::Unknown(self.said_all(problems)),
            moved => moved,
        }
    }
}

impl Origin {
    fn not_utf8(self) -> &'static str {
        match self {
            Self::File => "not UTF-8; save the file as UTF-8 text",
            #[cfg(unix)]
            Self::Program => "not UTF-8; make the program print UTF-8 text",
        }
    }

    fn empty(self) -> &'static str {
        match self {
            Self::File => "the file is empty",
            #[cfg(unix)]
            Self::Program => "the program printed no document",
        }
    }

    fn cut_off(self, marker: &str) -> String {
        match self {
            Self::File => format!(
                "the file may be cut off: it does not end with the line `{marker}`; wait until it is written completely, or add the line"
            ),
            #[cfg(unix)]
            Self::Program => format!(
                "the output may be cut off: it does not end with the line `{marker}`; make the program print it as its last line"
            ),
        }
    }
}

/// The text of `bytes`.
///
/// # Errors
/// The first byte that is not UTF-8, with its position. The column counts bytes.
fn utf8(bytes: &[u8], origin: Origin) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = &bytes[..error.valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = good.iter().rposition(|byte| *byte == b'\n');
        let start = start.map_or(0, |at| at + 1);
        wrong(origin.not_utf8(), line, good.len() - start + 1)
    })
}

/// Checks that `text` has the end marker as its last line, and nowhere before.
///
/// # Errors
/// When the marker is missing or comes too early; the problem has its position.
pub(crate) fn declares_end<F: Format>(text: &str, origin: Origin) -> Result<(), Problem> {
    let Some(marker) = F::END else { return Ok(()) };
    let is_marker = |line: &str| line.trim_end() == marker;
    let last = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .last();
    let first = text.lines().enumerate().find(|(_, line)| is_marker(line));
    let problem = |line: usize, message: String| Err(wrong(message, line, 1));
    match (first, last) {
        (Some((at, _)), Some((end, _))) if at == end => Ok(()),
        (Some((at, _)), _) => problem(
            at + 1,
            format!(
                "the end marker `{marker}` must appear once, as the last line; remove it here, or the content after it"
            ),
        ),
        (None, last) => problem(last.map_or(1, |(at, _)| at + 1), origin.cut_off(marker)),
    }
}
