//! Files and directories as sources of truth. Needs the feature `files`.

mod cache;
mod contents;
mod directory;
mod editing;
#[cfg(target_os = "linux")]
mod inotify;
pub(crate) mod links;
mod one;
mod reader;
pub(crate) mod scope;
pub(crate) mod settings;
pub(crate) mod stable;
mod told;
pub(crate) mod walk;
pub(crate) mod watch;

use std::{marker::PhantomData, path::PathBuf, time::Duration};

use async_trait::async_trait;
use futures::stream::BoxStream;
use plugin_sdk::{Problems, Reading, SourceOfTruth, Update, document::FieldPath};
use prodspec_model::{Revision, SourceName};

use self::{cache::Shape, settings::Settings};
pub use self::{directory::Folder, editing::EditShape, one::OneFile, reader::FileReader};
use crate::format::{Json, Limits, Toml, Yaml};

/// A YAML file with one or more documents. The file is read completely or not at all; an empty file is an error.
///
/// ```
/// use plugin_sdk::SourceOfTruth;
/// use prodspec_gen::YamlFile;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("manifest.yaml");
/// std::fs::write(&path, "clusters: [eu, us]\n...\n")?;
///
/// let manifest = YamlFile::new(&path).with_end_marker();
/// let reading = manifest.read().await?;
/// assert_eq!(reading.documents[0].name(), "manifest.yaml#0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub type YamlFile = Files<OneFile<Yaml>>;
/// A TOML file, which is one document. See [`YamlFile`].
pub type TomlFile = Files<OneFile<Toml>>;
/// A JSON file, which is one document. See [`YamlFile`].
pub type JsonFile = Files<OneFile<Json>>;
/// All YAML files in a directory and its subdirectories, sorted by path.
///
/// Hidden files and directories are ignored. Links to files are followed; links to directories are refused, as are all
/// links by sources of trees such as Git. Subdirectories can be nested 16 levels deep.
///
/// ```
/// use plugin_sdk::SourceOfTruth;
/// use prodspec_gen::YamlDirectory;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("eu.yaml"), "replicas: 2")?;
/// std::fs::write(dir.path().join("us.yaml"), "replicas: 3")?;
///
/// let clusters = YamlDirectory::new(dir.path()).named("clusters").read().await?;
/// let names: Vec<String> = clusters.documents.iter().map(|document| document.name()).collect();
/// assert_eq!(names, ["eu.yaml#0", "us.yaml#0"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub type YamlDirectory = Files<Folder<Yaml>>;
/// All TOML files in a directory. See [`YamlDirectory`].
pub type TomlDirectory = Files<Folder<Toml>>;
/// All JSON files in a directory. See [`YamlDirectory`].
pub type JsonDirectory = Files<Folder<Json>>;

/// A source of truth on disk: one file, or all files of a directory, as `S` says.
///
/// The source keeps the state, digest and documents of each file. A file that has not changed is not opened again. What
/// counts is its inode, its length and its times; a file that changed within the last three seconds is read again.
///
/// A watched directory looks only at the files about which the system has told since the last reading: on Linux, on file
/// systems of this machine. It lists all files when a directory or a link has changed, when events were lost, and
/// [from time to time](Self::list_after). Everywhere else a reading looks at the state of each file.
#[derive(Debug, Clone)]
pub struct Files<S> {
    settings: Settings,
    shape: PhantomData<fn() -> S>,
}

impl<S: Shape + From<Settings>> Files<S> {
    /// A source that reads the file or directory at `path` on request. The source has its name. It is not watched.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings::new(path.into(), false),
            shape: PhantomData,
        }
    }

    /// A source that reads the file or directory at `path` on request, and gives a hint when its files may have changed:
    /// when one of them, a directory or link in its path, or the target of a link was written or replaced. The path
    /// need not exist yet.
    pub fn watch(path: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings::new(path.into(), true),
            shape: PhantomData,
        }
    }

    /// Sets the name of the source. Necessary when generators read the source under a name other than that of the file
    /// or directory.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.settings = self
            .settings
            .set(|settings| settings.parsing.source = name.into());
        self
    }

    /// Requires the format's [end marker](crate::format::Format::END) as the last line of every file, `...` for YAML. A
    /// file that was cut off at the end of a line is then noticed too.
    #[must_use]
    pub fn with_end_marker(mut self) -> Self {
        self.settings = self
            .settings
            .set(|settings| settings.parsing.end_marker = true);
        self
    }

    /// Sets the field that gives each document its name, such as `metadata.name`. A document with a name stays the same
    /// document when it moves to another file, or when documents before it are removed; without one, it is known by its
    /// place. The name is a text, unique in the source.
    ///
    /// ```
    /// # use plugin_sdk::SourceOfTruth;
    /// # use prodspec_gen::YamlDirectory;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let dir = tempfile::tempdir()?;
    /// std::fs::write(dir.path().join("all.yaml"), "{name: eu, replicas: 2}\n---\n{name: us, replicas: 3}")?;
    /// let field = "name".parse()?;
    /// let clusters = YamlDirectory::new(dir.path()).documents_named_by(field).read().await?;
    /// assert_eq!(clusters.documents[1].name(), "us");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn documents_named_by(mut self, field: FieldPath) -> Self {
        self.settings = self
            .settings
            .set(|settings| settings.parsing.named_by = Some(field));
        self
    }

    /// Sets the time after which a watched directory lists all its files, although the system tells of changes. Default: five
    /// minutes. A change of which the system does not tell is found then: one through another name of the file (a hard
    /// link) or through a memory map, and a file system mounted below the directory.
    #[must_use]
    pub fn list_after(mut self, time: Duration) -> Self {
        self.settings = self.settings.set(|settings| settings.list_after = time);
        self
    }

    /// Declares that the files are final: `{{ x }}` in them is text, wherever the format allows it. Without this, an
    /// unquoted value that begins with `{{`, a line that begins with `{{-`, and a name with `{{` are refused as templates
    /// that were not rendered.
    #[must_use]
    pub fn rendered(mut self) -> Self {
        self.settings = self
            .settings
            .set(|settings| settings.parsing.limits.rendered = true);
        self
    }

    /// Sets the limits: `bytes` for all files together, `depth` and `expansion` for each file.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings = self.settings.set(|settings| settings.parsing.limit(limits));
        self
    }
}

#[async_trait]
impl<S: Shape + From<Settings>> SourceOfTruth for Files<S> {
    fn name(&self) -> SourceName {
        SourceName(self.settings.parsing.source.clone())
    }

    async fn read(&self) -> Result<Reading, Problems> {
        self.settings.whole::<S>().await
    }

    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        self.settings.read::<S>(Some(known.clone())).await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.settings.changes()
    }
}

#[cfg(test)]
mod tests;
