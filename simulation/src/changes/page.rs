//! The text of the source.

use std::sync::Arc;

use control_plane::sdk::{Document, FieldEdit, Problem, Problems, Reading};
use futures::channel::mpsc;
use prodspec_gen::{
    edit::{self, Edit},
    format::{Format, Limits, Yaml},
};
use prodspec_model::Digest;

use super::manifest::{Manifest, NAME};

/// The text, and those who listen for its changes.
pub(super) struct Page {
    pub(super) text: String,
    listeners: Vec<mpsc::UnboundedSender<()>>,
}

impl Page {
    pub(super) fn new(text: String) -> Self {
        let listeners = Vec::new();
        Self { text, listeners }
    }

    /// The content of the text.
    #[allow(clippy::expect_used, reason = "only valid edits are made")]
    pub(super) fn manifest(&self) -> Manifest {
        let document = documents(&self.text).expect("the text is a document");
        let document = document.first().expect("the text has content");
        document.read().expect("the text is a manifest")
    }

    /// Replaces the text.
    pub(super) fn set(&mut self, text: String) {
        self.text = text;
        self.listeners.retain(|it| it.unbounded_send(()).is_ok());
    }

    /// Adds a listener for changes.
    pub(super) fn listen(&mut self, listener: mpsc::UnboundedSender<()>) {
        self.listeners.push(listener);
    }
}

fn documents(text: &str) -> Result<Vec<Document>, Problems> {
    let nodes = Yaml::parse(text, &Limits::default()).map_err(Problems::from)?;
    let nodes = nodes.into_iter().zip(0..);
    Ok(nodes
        .map(|(node, nth)| Document::new(NAME, NAME, nth, node))
        .collect())
}

/// The revision of a text.
pub(super) fn revision(text: &str) -> Arc<str> {
    Digest::of(text.as_bytes()).to_string().into()
}

/// The content of a text.
pub(super) fn reading(text: &str) -> Result<Reading, Problems> {
    Ok(Reading::new(revision(text), documents(text)?))
}

/// The text after some edits.
pub(super) fn edited(text: &str, edits: &[FieldEdit]) -> Result<String, Problem> {
    let edits = edits.iter().map(|it| Edit {
        document: 0,
        path: it.path.clone(),
        was: it.was.clone(),
        to: it.to.clone(),
    });
    let edits: Vec<Edit> = edits.collect();
    edit::yaml(text, &edits, &Limits::default()).map_err(Problem::new)
}
