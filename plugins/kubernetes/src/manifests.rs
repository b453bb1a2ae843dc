//! Files and directories of manifests as a source of truth.

use std::path::PathBuf;

use async_trait::async_trait;
use futures::stream::BoxStream;
use plugin_sdk::{
    EditError, EditableSource, Problems, Proposal, Reading, SourceChange, SourceOfTruth, Update,
};
use prodspec_gen::{
    file::{Files, Folder, OneFile},
    format::Limits,
};
use prodspec_model::{Revision, SourceName};

use crate::format::KubernetesYaml;

/// The objects in a manifest, or in all manifests of a directory and its subdirectories: files with the extensions
/// `.yaml`, `.yml` and `.json`, as `kubectl apply --recursive` takes them. How they are read: [`KubernetesYaml`].
///
/// Each object is a document known by its kind, namespace and name, so that it stays the same document in another file. An
/// object that is there twice is refused. The source has the name of its file or directory.
///
/// ```
/// use plugin_sdk::SourceOfTruth;
/// use plugins_kubernetes::Manifests;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let dir = tempfile::tempdir()?;
/// let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: prod}\n";
/// std::fs::write(dir.path().join("web.yaml"), web)?;
///
/// let manifests = Manifests::directory(dir.path()).named("cluster");
/// let documents = manifests.read().await?.documents;
/// assert_eq!(documents[0].name(), "Deployment.apps/prod/web");
/// assert_eq!(documents[0].place(), "web.yaml#0 (Deployment.apps/prod/web)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Manifests(Of);

#[derive(Debug, Clone)]
enum Of {
    Directory(Files<Folder<KubernetesYaml>>),
    File(Files<OneFile<KubernetesYaml>>),
}

/// Applies an expression to the source, which is the same for a file and a directory.
macro_rules! each {
    ($of:expr, $source:ident => $then:expr) => {
        match $of {
            Of::Directory($source) => $then,
            Of::File($source) => $then,
        }
    };
}

/// As [`each`], for an expression that makes another source.
macro_rules! set {
    ($of:expr, $source:ident => $then:expr) => {
        match $of {
            Of::Directory($source) => Self(Of::Directory($then)),
            Of::File($source) => Self(Of::File($then)),
        }
    };
}

impl Manifests {
    /// All manifests of the directory at `path`, read on request.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        Self(Of::Directory(Files::new(path)))
    }

    /// All manifests of the directory at `path`, with a hint when one of them may have changed.
    pub fn watch_directory(path: impl Into<PathBuf>) -> Self {
        Self(Of::Directory(Files::watch(path)))
    }

    /// The manifest at `path`, read on request.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Of::File(Files::new(path)))
    }

    /// The manifest at `path`, with a hint when it may have changed.
    pub fn watch_file(path: impl Into<PathBuf>) -> Self {
        Self(Of::File(Files::watch(path)))
    }

    /// Sets the name of the source, under which generators read it.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        set!(self.0, source => source.named(name))
    }

    /// Requires `...` as the last line of every file. A file that was cut off at the end of a line is then noticed too.
    #[must_use]
    pub fn with_end_marker(self) -> Self {
        set!(self.0, source => source.with_end_marker())
    }

    /// Declares that the manifests are final: `{{ x }}` in them is text, in names too.
    /// See [`Files::rendered`](prodspec_gen::file::Files::rendered).
    #[must_use]
    pub fn rendered(self) -> Self {
        set!(self.0, source => source.rendered())
    }

    /// Sets the limits: `bytes` for all files together, `depth` and `expansion` for each document.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        set!(self.0, source => source.limits(limits))
    }
}

#[async_trait]
impl SourceOfTruth for Manifests {
    fn name(&self) -> SourceName {
        each!(&self.0, source => source.name())
    }

    async fn read(&self) -> Result<Reading, Problems> {
        each!(&self.0, source => source.read().await)
    }

    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        each!(&self.0, source => source.read_since(known).await)
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        each!(&self.0, source => source.changes())
    }
}

/// Edits are proven twice: the text as YAML or JSON, and the objects as `kubectl` reads them. Objects in a `List` cannot be
/// edited.
#[async_trait]
impl EditableSource for Manifests {
    async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError> {
        each!(&self.0, source => source.propose(change).await)
    }

    async fn commit(
        &self,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError> {
        each!(&self.0, source => source.commit(change, proposal).await)
    }
}
