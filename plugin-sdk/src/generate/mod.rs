//! Generators: pure functions from documents, and from assets of other generators, to assets.

mod drafts;
mod entry;
mod info;
mod input;

pub use drafts::Drafts;
pub use entry::Entry;
pub use info::{GeneratorInfo, Unit};
pub use input::{Input, Upstream};

use crate::problem::Problems;

/// Makes assets from configuration. A generator is a synchronous pure function: its result must not depend on clock,
/// network, environment or hash order.
///
/// ```
/// use plugin_sdk::{Document, Drafts, Generator, GeneratorInfo, Input, Problems, document::Node};
/// use prodspec_model::{Asset, AssetId, Message};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize)]
/// struct Manifest { clusters: Vec<String> }
///
/// #[derive(Serialize, Deserialize)]
/// struct FrontendJob { cluster: String }
/// impl Message for FrontendJob { const TYPE: &'static str = "shakespeare.v1.FrontendJob"; }
///
/// struct ShakespeareModel;
///
/// impl Generator for ShakespeareModel {
///     fn info(&self) -> GeneratorInfo {
///         GeneratorInfo::per_document("shakespeare", "manifest.yaml").makes::<FrontendJob>()
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
/// let manifest = Node::from(serde_json::json!({"clusters": ["eu", "us"]}));
/// let manifest = Document::new("manifest.yaml", "manifest.yaml", 0, manifest);
/// let mut out = Drafts::of("shakespeare");
/// ShakespeareModel.generate(&Input::new(vec![&manifest], &[]), &mut out)?;
/// assert_eq!(out.finish().0[1].id_str(), "job/us");
/// # Ok::<(), Problems>(())
/// ```
pub trait Generator: Send + Sync + 'static {
    /// The generator's name, the input of each call, and the asset types that it makes.
    fn info(&self) -> GeneratorInfo;

    /// Makes the assets for one call.
    ///
    /// # Errors
    /// Every problem found. No incarnation is sealed then.
    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems>;
}
