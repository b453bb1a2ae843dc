//! Rendering: the assets that the sources of a pipeline make now, as text. No store and no server is needed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use control_plane_runtime::{Runtime, blocking, timeout_at};
use futures::future::join_all;
use plugin_sdk::{Candidate, Problem, Problems};
use prodspec_model::{Asset, AssetId, Incarnation, Snapshot, addons::Moved};
use serde::Serialize;
use similar::TextDiff;

use crate::{
    format::template,
    memo::{Memo, Readings},
    pipeline::Pipeline,
    trace::Trace,
};

/// The assets that a pipeline makes of its sources, rendered before anything is sealed. Needs the feature `files`.
#[derive(Debug)]
pub struct Rendered {
    candidate: Candidate,
    warnings: Problems,
    memo: Memo,
}

impl Pipeline {
    /// Reads all sources and runs all generators and validators. Nothing is sealed; guards and external validators are
    /// not asked.
    ///
    /// ```
    /// # use prodspec_gen::{Pipeline, YamlFile, runtime::TokioRuntime};
    /// # use prodspec_model::PartitionId;
    /// # use plugin_sdk::{Drafts, Generator, GeneratorInfo, Input, Problems};
    /// # struct Model;
    /// # impl Generator for Model {
    /// #     fn info(&self) -> GeneratorInfo {
    /// #         GeneratorInfo::per_document("model", "m.yaml")
    /// #     }
    /// #     fn generate(&self, _: &Input<'_>, _: &mut Drafts) -> Result<(), Problems> {
    /// #         Ok(())
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::write(dir.path().join("m.yaml"), "a: 1")?;
    /// let pipeline = Pipeline::builder(PartitionId::new("example")?)
    ///     .source(YamlFile::new(dir.path().join("m.yaml")))
    ///     .generator(Model)
    ///     .build()?;
    /// let rendered = pipeline.render(&TokioRuntime::current()).await?;
    /// assert_eq!(rendered.yaml()?, "", "the generator makes nothing");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// All problems that sources, generators and validators find.
    pub async fn render<R: Runtime>(&self, runtime: &R) -> Result<Rendered, Problems> {
        let reads = self.sources().iter().map(async |source| {
            let reading = self.read_since(runtime, source, None).await;
            (source.name(), reading)
        });
        let readings: Readings = join_all(reads).await.into_iter().collect();
        let (pipeline, allowed) = (self.clone(), self.0.timing.generate_deadline);
        let deadline = runtime.now().mono + allowed;
        let rendered = blocking(runtime, move || Rendered::of(&pipeline, readings));
        let message = match timeout_at(runtime, deadline, rendered).await {
            Some(Some(rendered)) => return rendered,
            Some(None) => "the run of generators panicked; fix the generator".to_owned(),
            None => format!("generators did not end within {allowed:?}; fix the slow generator"),
        };
        Err(Problem::new(message).into())
    }
}

/// An asset as it is written in YAML.
#[derive(Serialize)]
struct Written<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    type_name: &'a str,
    payload: serde_json::Value,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    addons: serde_json::Map<String, serde_json::Value>,
}

impl Rendered {
    /// Runs the generators and validators on a thread for blocking work, because they can compute for a long time.
    fn of(pipeline: &Pipeline, readings: Readings) -> Result<Self, Problems> {
        let mut memo = Memo::new();
        let draft = memo.draft(pipeline, readings, None);
        let draft = draft.map_err(|refused| refused.problems)?;
        let (candidate, warnings) = (draft.candidate.clone(), draft.warnings.clone());
        memo.accept(draft);
        Ok(Self {
            candidate,
            warnings,
            memo,
        })
    }

    /// All assets, as a candidate for a seal.
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The warnings of generators and validators.
    pub fn warnings(&self) -> &Problems {
        &self.warnings
    }

    /// Finds where an asset comes from. `None`: no generator makes it.
    pub fn trace(&self, asset: &AssetId) -> Option<Trace> {
        self.memo.trace(None, asset)
    }

    /// All assets as one YAML stream, sorted by id: a document per asset, with a comment that says where it comes from.
    ///
    /// # Errors
    /// If an asset cannot be written as YAML.
    pub fn yaml(&self) -> Result<String, Problem> {
        let mut stream = String::new();
        for asset in self.candidate.snapshot.iter() {
            stream.push_str("---\n");
            if let Some(trace) = self.trace(&asset.id()) {
                let trace = trace.to_string().replace(char::is_control, " ");
                let _ = writeln!(stream, "# {trace}");
            }
            stream.push_str(&yaml(&asset)?);
        }
        Ok(stream)
    }

    /// What sealing these assets would change of `before`, as a unified diff of the YAML of each asset that differs.
    /// Empty if nothing would change.
    ///
    /// # Errors
    /// If an asset cannot be written as YAML.
    pub fn diff(&self, before: &Incarnation) -> Result<String, Problem> {
        self.diff_of(before.snapshot(), &before.id().to_string())
    }

    /// As [`diff`](Self::diff), against the assets of other sources: those of another branch, for example.
    ///
    /// # Errors
    /// If an asset cannot be written as YAML.
    pub fn diff_to(&self, before: &Self) -> Result<String, Problem> {
        self.diff_of(&before.candidate.snapshot, "the other")
    }

    fn diff_of(&self, before: &Snapshot, name: &str) -> Result<String, Problem> {
        let mut diff = String::new();
        for (old, new) in pairs(before, &self.candidate.snapshot) {
            let header = |side: &Option<Asset>, of: &str| match side {
                Some(asset) => format!("{} {of}", asset.id_str()),
                None => "/dev/null".to_owned(),
            };
            let (from, to) = (
                header(&old, &format!("at {name}")),
                header(&new, "rendered"),
            );
            let text = |side: &Option<Asset>| side.as_ref().map_or(Ok(String::new()), yaml);
            let (old, new) = (text(&old)?, text(&new)?);
            let text = TextDiff::from_lines(&old, &new);
            let text = text.unified_diff().header(&from, &to).to_string();
            diff.push_str(&text);
        }
        Ok(diff)
    }
}

/// Each asset that differs, before and after. A renamed asset is one pair, with two ids.
fn pairs(before: &Snapshot, after: &Snapshot) -> Vec<(Option<Asset>, Option<Asset>)> {
    let changes = before.diff(after);
    let came = changes.iter().filter(|change| change.before.is_none());
    let renamed = came.filter_map(|change| {
        let from = Moved::source_of(change.after.as_ref()?)?;
        let old = before.get(from.as_str())?;
        after
            .get(from.as_str())
            .is_none()
            .then(|| (change.id(), old))
    });
    let mut renamed: BTreeMap<AssetId, Asset> = renamed.collect();
    let left: BTreeSet<AssetId> = renamed.values().map(Asset::id).collect();
    let others = changes
        .into_iter()
        .filter(|change| !left.contains(&change.id()));
    let sides = others.map(|change| (renamed.remove(&change.id()).or(change.before), change.after));
    sides.collect()
}

/// One asset as a YAML document.
fn yaml(asset: &Asset) -> Result<String, Problem> {
    let value = |json: &str| {
        let value = serde_json::from_str(json);
        value.map_err(|error| Problem::new(error).asset(asset.id()))
    };
    let addons = asset
        .addons()
        .map(|(name, json)| Ok((name.to_owned(), value(json)?)));
    let written = Written {
        id: asset.id_str(),
        type_name: asset.type_str(),
        payload: value(asset.payload_json())?,
        addons: addons.collect::<Result<_, Problem>>()?,
    };
    // A text like `{{ x }}` is quoted, so that readers do not take it for a template.
    let quote_all = template::expression(asset.canonical()).is_some();
    let options = serde_saphyr::ser_options! { quote_all: quote_all };
    serde_saphyr::to_string_with_options(&written, options).map_err(|error| {
        Problem::new(format!("cannot be written as YAML: {error}")).asset(asset.id())
    })
}

#[cfg(test)]
mod tests;
