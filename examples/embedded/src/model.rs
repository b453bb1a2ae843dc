//! The intent: how `sites.yaml` becomes assets, and which assets are refused.

use plugin_sdk::{
    AssetView, Drafts, Generator, GeneratorInfo, Input, Problems, Validator, document::Located,
};
use prodspec_model::{Asset, AssetId, Message};
use serde::{Deserialize, Serialize};

/// Name of the source of truth: the file that the team edits.
pub const SOURCE: &str = "sites.yaml";

/// The payload of an asset: one page of one site, as it should be in production.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Name of the site that the page belongs to.
    pub site: String,
    /// Whole text of the page.
    pub text: String,
}

impl Message for Page {
    const TYPE: &'static str = "embedded.v1.Page";
}

/// One document of the source: a site with its pages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Site {
    site: String,
    greeting: String,
    pages: Vec<Located<String>>,
}

/// Generator that makes one [`Page`] asset for each page of each site.
#[derive(Debug)]
pub struct Sites;

impl Generator for Sites {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("sites", SOURCE).makes::<Page>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let site: Site = document.read()?;
            for name in &site.pages {
                let id = AssetId::new(&format!("page/{}/{}", site.site, name.value))?;
                let page = Page {
                    site: site.site.clone(),
                    text: format!("{}, this is {}.\n", site.greeting, name.value),
                };
                let from = document.provenance_at(&*name.path);
                out.asset(Asset::builder(id).payload(&page)?, from)?;
            }
        }
        Ok(())
    }
}

/// Validator that refuses pages without a greeting.
#[derive(Debug)]
pub struct Readable;

impl Validator for Readable {
    fn name(&self) -> &str {
        "readable"
    }

    fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let Ok(page) = view.asset().payload::<Page>() else {
            return;
        };
        if page.text.starts_with(',') {
            let problem = view.problem("the greeting is empty: give the site a greeting");
            problems.push(problem.field("payload.text"));
        }
    }
}
