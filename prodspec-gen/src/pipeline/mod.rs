//! The pipeline: sources, generators, validators and guards that turn configuration into intent. It is built once and
//! is immutable.

mod builder;
mod editing;
mod error;
mod graph;

use std::{
    collections::BTreeMap, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration,
};

use control_plane_runtime::{NoAnswer, Runtime, call, timeout_at};
use futures::FutureExt;
use plugin_sdk::{
    AssetTypes, Blobs, EditableSource, ExternalValidator, Generator, GeneratorInfo, Problem,
    Problems, Reading, SourceOfTruth, Update, Validator,
};
use prodspec_model::{PartitionId, Revision, SourceName};

pub use builder::Builder;
pub use error::Error;

use crate::{abandoned::Abandoned, guard::Guards, kernel::Timing};

/// The definition of how the sources of truth of one partition become intent. Cheap to clone.
///
/// ```
/// use plugin_sdk::{AssetType, Drafts, Generator, GeneratorInfo, Input, Problems};
/// use prodspec_gen::{Pipeline, YamlFile, validators};
/// use prodspec_model::{Asset, AssetId, Message, PartitionId};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Manifest { clusters: Vec<String> }
///
/// #[derive(Serialize, Deserialize)]
/// struct FrontendJob { cluster: String }
/// impl Message for FrontendJob { const TYPE: &'static str = "shakespeare.v1.FrontendJob"; }
///
/// struct ShakespeareModel;
/// impl Generator for ShakespeareModel {
///     fn info(&self) -> GeneratorInfo {
///         GeneratorInfo::whole("shakespeare").reads("manifest.yaml").makes::<FrontendJob>()
///     }
///     fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
///         for document in input.documents() {
///             let manifest: Manifest = document.read()?;
///             for cluster in manifest.clusters {
///                 let id = AssetId::new(&format!("job/{cluster}"))?;
///                 out.asset(Asset::builder(id).payload(&FrontendJob { cluster })?, document.provenance())?;
///             }
///         }
///         Ok(())
///     }
/// }
///
/// let manifest = YamlFile::watch("manifest.yaml");
/// let pipeline = Pipeline::builder(PartitionId::new("shakespeare")?)
///     .source(manifest.clone())
///     .generator(ShakespeareModel)
///     .validators(validators::standard())
///     .asset_type(AssetType::<FrontendJob>::new())
///     .build()?;
///
/// // Which assets does this manifest give?
/// let reading = manifest.parse(b"clusters: [eu, us]")?;
/// let candidate = pipeline.dry_run([("manifest.yaml", reading)], None)?;
/// assert_eq!(candidate.snapshot.len(), 2);
///
/// let reading = manifest.parse(b"clusters: [eu]\nclutsers: [us]")?;
/// let problems = pipeline.dry_run([("manifest.yaml", reading)], None).unwrap_err();
/// assert_eq!(
///     problems.to_string(),
///     "manifest.yaml#0:2:1: clutsers: unknown field `clutsers`, expected `clusters` (says shakespeare)",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pipeline(pub(crate) Arc<Inner>);

/// The parts of a pipeline.
pub(crate) struct Inner {
    pub(crate) partition: PartitionId,
    pub(crate) sources: Vec<Arc<dyn SourceOfTruth>>,
    /// The sources whose fields programs may change.
    pub(crate) editable: BTreeMap<SourceName, Editable>,
    /// The readings of each source that did not end in time.
    pub(crate) late: BTreeMap<SourceName, Abandoned>,
    /// The generators, in an order in which every type is made before it is consumed.
    pub(crate) generators: Vec<Stage>,
    pub(crate) validators: Vec<Arc<dyn Validator>>,
    pub(crate) external: Vec<External>,
    /// Where the content of external references is.
    pub(crate) blobs: Option<Arc<dyn Blobs>>,
    pub(crate) types: Arc<AssetTypes>,
    pub(crate) guards: Guards,
    pub(crate) timing: Timing,
}

/// A source whose fields programs may change.
#[derive(Clone)]
#[non_exhaustive]
pub enum Editable {
    /// A source that makes changes by itself.
    Source(Arc<dyn EditableSource>),
    /// A table, whose changes are part of a commit of the store. Needs the feature `files`.
    #[cfg(feature = "files")]
    Table(crate::table::Table),
}

impl std::fmt::Debug for Editable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Editable")
            .field(&self.source().name())
            .finish()
    }
}

impl Editable {
    /// The source, without the difference.
    pub fn source(&self) -> &dyn EditableSource {
        match self {
            Self::Source(source) => &**source,
            #[cfg(feature = "files")]
            Self::Table(table) => table,
        }
    }
}

/// One generator with its declared inputs and outputs.
pub(crate) struct Stage {
    pub(crate) info: GeneratorInfo,
    pub(crate) generator: Box<dyn Generator>,
}

/// An external validator with the deadline for its answer.
#[derive(Clone)]
pub(crate) struct External {
    pub(crate) validator: Arc<dyn ExternalValidator>,
    pub(crate) deadline: Duration,
    /// The calls that did not end in time.
    pub(crate) late: Abandoned,
}

impl Pipeline {
    /// Starts a pipeline for one partition.
    pub fn builder(partition: PartitionId) -> Builder {
        Builder::new(partition)
    }

    /// The partition whose intent the pipeline makes.
    pub fn partition(&self) -> &PartitionId {
        &self.0.partition
    }

    /// The sources of truth that the pipeline reads.
    pub fn sources(&self) -> &[Arc<dyn SourceOfTruth>] {
        &self.0.sources
    }

    /// The source named `name`, if programs may change its fields.
    pub fn editable(&self, name: &SourceName) -> Option<&Editable> {
        self.0.editable.get(name)
    }

    /// The asset types and addon types that the pipeline declares.
    pub fn types(&self) -> &Arc<AssetTypes> {
        &self.0.types
    }

    /// Reads one of the pipeline's sources within [`Timing::read_deadline`], in a task of its own, because a source can
    /// block its thread.
    ///
    /// # Errors
    /// The problems that the source reports; or one problem if it panics, does not answer in time, or still blocks the
    /// thread of an earlier reading.
    pub async fn read<R: Runtime>(
        &self,
        runtime: &R,
        source: &Arc<dyn SourceOfTruth>,
    ) -> Result<Reading, Problems> {
        let asked = source.clone();
        let read = async move { asked.read().await };
        self.ask(runtime, source, read).await
    }

    /// Reads what has changed in one of the pipeline's sources since the revision `known`. `None`: reads all of it. See
    /// [`Pipeline::read`].
    pub(crate) async fn read_since<R: Runtime>(
        &self,
        runtime: &R,
        source: &Arc<dyn SourceOfTruth>,
        known: Option<Revision>,
    ) -> Result<Update, Problems> {
        let asked = source.clone();
        let read = async move {
            match known {
                Some(known) => asked.read_since(&known).await,
                None => asked.read().await.map(Update::Whole),
            }
        };
        self.ask(runtime, source, read).await
    }

    async fn ask<R: Runtime, T: Send + 'static>(
        &self,
        runtime: &R,
        source: &Arc<dyn SourceOfTruth>,
        asked: impl Future<Output = Result<T, Problems>> + Send + 'static,
    ) -> Result<T, Problems> {
        let late = self.0.late.get(&source.name()).cloned();
        let Some((running, _waiting)) = late.unwrap_or_default().begin() else {
            let message = "an earlier reading still blocks its thread, so no other one begins; find out what the source \
                           waits for, and restart the process if it does not end";
            return Err(Problem::new(message).by(by(&**source)).into());
        };
        let read = async move {
            let _running = running;
            asked.await
        };
        let deadline = self.read_by(runtime);
        answered(&**source, call(runtime, deadline, read).await)
    }

    /// Reads a replacement for one of the pipeline's sources within [`Timing::read_deadline`], in the caller's task.
    ///
    /// # Errors
    /// The problems that the source reports; or one problem if it panics or does not answer in time.
    pub async fn read_replacement<R: Runtime>(
        &self,
        runtime: &R,
        source: &dyn SourceOfTruth,
    ) -> Result<Reading, Problems> {
        let deadline = self.read_by(runtime);
        let read = AssertUnwindSafe(source.read()).catch_unwind();
        let read = timeout_at(runtime, deadline, read).await;
        let read = read.ok_or(NoAnswer::Late);
        answered(
            source,
            read.and_then(|it| it.map_err(|_| NoAnswer::Panicked)),
        )
    }
}

/// The result of reading a source: its answer, or a problem if there is none.
fn answered<T>(
    source: &dyn SourceOfTruth,
    answer: Result<Result<T, Problems>, NoAnswer>,
) -> Result<T, Problems> {
    let message = match answer {
        Ok(reading) => return reading.map_err(|said| with_error(source, said)),
        Err(NoAnswer::Late) => "could not be read in time; check that the source answers",
        Err(_) => "panicked; fix the source",
    };
    Err(Problem::new(message).by(by(source)).into())
}

/// The problems of a source that could not be read. Adds an error if the source reported none.
fn with_error(source: &dyn SourceOfTruth, mut said: Problems) -> Problems {
    if !said.any_error() {
        let message = "failed without saying why; return the error as a problem";
        said.push(Problem::new(message).by(by(source)));
    }
    said
}

fn by(source: &dyn SourceOfTruth) -> String {
    format!("source {}", source.name().0)
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let generators = self.0.generators.iter().map(|stage| &*stage.info.name);
        f.debug_struct("Pipeline")
            .field("partition", &self.0.partition)
            .field("generators", &generators.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
