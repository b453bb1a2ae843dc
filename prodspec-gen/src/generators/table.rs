//! Addons from a table in a document, by id prefix or type.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use plugin_sdk::{Document, Drafts, Generator, GeneratorInfo, Input, Problem, Problems};
use prodspec_model::{Asset, Message};
use serde::Deserialize;

/// Adds an addon of type `A` to each asset, by the first rule in a table that fits the asset. An asset that has such an
/// addon already keeps it, so a table can take over from other generators, or they from it, asset by asset.
///
/// The table is a list at one field path of the documents of a source. Each rule has an `addon`, and it fits the assets
/// whose id begins with `prefix` and whose type is `type`; a rule without them fits every asset. A rule with `addon:
/// null` leaves its assets without the addon.
///
/// ```yaml
/// owners:
///   - { prefix: eu/, addon: { owner: eu-team } }
///   - { type: shakespeare.v1.Database, addon: { owner: data-team } }
///   - { addon: { owner: sre } }
/// policies:
///   - { type: shakespeare.v1.FrontendJob, addon: { policy: { $asset: policy/frontends } } }
/// domains:
///   - { prefix: eu/, addon: { domains: [eu] } }
///   - { addon: global }
/// ```
///
/// ```
/// use prodspec_gen::{Pipeline, YamlFile, generators::AddonTable};
/// use prodspec_model::addons::{ImpactedDomains, Owner, RolloutPolicyRef};
/// # use plugin_sdk::{Drafts, Generator, GeneratorInfo, Input, Problems};
/// # struct Model;
/// # impl Generator for Model {
/// #     fn info(&self) -> GeneratorInfo { GeneratorInfo::per_document("model", "m.yaml") }
/// #     fn generate(&self, _: &Input<'_>, _: &mut Drafts) -> Result<(), Problems> { Ok(()) }
/// # }
///
/// let pipeline = Pipeline::builder(prodspec_model::PartitionId::new("example")?)
///     .source(YamlFile::new("m.yaml"))
///     .source(YamlFile::new("standards.yaml"))
///     .generator(Model)
///     .generator(AddonTable::<Owner>::new("owners", "standards.yaml", "owners").required())
///     .generator(AddonTable::<RolloutPolicyRef>::new("policies", "standards.yaml", "policies"))
///     .generator(AddonTable::<ImpactedDomains>::new("domains", "standards.yaml", "domains"))
///     .build()?;
/// # let _ = pipeline;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct AddonTable<A> {
    name: String,
    source: String,
    path: String,
    required: bool,
    read: Mutex<Option<Read<A>>>,
}

/// The rules of all documents of the source, in their order, with the documents that they were read from.
struct Read<A> {
    documents: Vec<Document>,
    rules: Arc<[Rule<A>]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "A: Message")]
struct Rule<A> {
    prefix: Option<String>,
    r#type: Option<String>,
    #[serde(deserialize_with = "Option::deserialize")]
    addon: Option<A>,
}

impl<A> Rule<A> {
    fn fits(&self, asset: &Asset) -> bool {
        let prefix = self.prefix.as_deref();
        let of_type = self.r#type.as_deref();
        prefix.is_none_or(|prefix| asset.id_str().starts_with(prefix))
            && of_type.is_none_or(|name| asset.type_str() == name)
    }
}

impl<A: Message> AddonTable<A> {
    /// Makes the generator `name` from the list at the field path `path` in the documents of `source`.
    pub fn new(name: &str, source: &str, path: &str) -> Self {
        Self {
            name: name.into(),
            source: source.into(),
            path: path.into(),
            required: false,
            read: Mutex::default(),
        }
    }

    /// Refuses assets that neither have the addon nor fit a rule.
    pub fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }

    /// The rules of these documents. They are read once for all calls that see the same documents.
    fn rules(&self, documents: &[&Document]) -> Result<Arc<[Rule<A>]>, Problem> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |one: &Document, other: &Document| std::ptr::eq(one.root(), other.root());
        if let Some(known) = &*read
            && known.documents.len() == documents.len()
            && known
                .documents
                .iter()
                .zip(documents)
                .all(|(a, b)| same(a, b))
        {
            return Ok(known.rules.clone());
        }
        let mut rules: Vec<Rule<A>> = Vec::new();
        for document in documents {
            rules.extend(document.read_at::<Vec<_>>(&self.path)?);
        }
        let rules: Arc<[_]> = rules.into();
        *read = Some(Read {
            documents: documents.iter().copied().cloned().collect(),
            rules: rules.clone(),
        });
        Ok(rules)
    }
}

impl<A: Message> Generator for AddonTable<A> {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_any_asset(&self.name).reads(&self.source)
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let asset = input.asset().filter(|asset| !asset.has_addon(A::TYPE));
        let Some(asset) = asset else {
            return Ok(());
        };
        let documents: Vec<&Document> = input.documents().collect();
        let rules = self.rules(&documents)?;
        match rules.iter().find(|rule| rule.fits(asset)) {
            Some(rule) => {
                if let Some(addon) = &rule.addon {
                    out.amend(asset.edit().addon(addon)?)?;
                }
            }
            None if self.required => out.problem(Problem::with(
                asset,
                format!(
                    "has no addon {}, and no rule at `{}` in {} fits it; add one",
                    A::TYPE,
                    self.path,
                    self.source
                ),
            )),
            None => {}
        }
        Ok(())
    }
}

impl<A> fmt::Debug for AddonTable<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddonTable")
            .field("name", &self.name)
            .field("source", &self.source)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
