//! Production: resources whose contents change slowly. It knows only contents, tokens and time.

mod content;
mod resource;

use std::{collections::BTreeMap, time::Duration};

use prodspec_model::{Asset, Digest};

pub use content::Content;
pub use resource::{Applying, Lie, Push, Refused, Resource};

use crate::{executor::Instant, intent::Plan};

/// All resources of the simulated production.
pub struct Production {
    /// The resources, by asset number.
    pub resources: Vec<Resource>,
    /// Number of pushes that took effect.
    pub effective: u64,
    /// The pushes that took effect, in order: asset number and content, `None` for a turndown.
    pub took_effect: Vec<(usize, Option<Content>)>,
    /// Number of turndowns that took effect.
    pub removed: u64,
    /// Time at which the last accepted push arrived.
    pub last_push: Instant,
    contents: BTreeMap<Digest, Content>,
}

/// Maximum duration of a push in production, after its arrival.
pub const LONGEST: Duration = Duration::from_secs(12);

/// Time for which a push may still rest on evidence from before a manual change (R10).
pub const EVIDENCE: Duration = Duration::from_secs(61);

impl Production {
    /// Makes a production without any content.
    pub fn new(plan: &Plan) -> Self {
        Self {
            resources: plan
                .wishes
                .iter()
                .map(|wish| Resource::new(wish.kind))
                .collect(),
            effective: 0,
            took_effect: Vec::new(),
            removed: 0,
            last_push: Instant::default(),
            contents: BTreeMap::new(),
        }
    }

    /// The content of an asset. It is cached, because equal assets are read again and again.
    pub fn content(&mut self, asset: &Asset) -> Content {
        *self
            .contents
            .entry(asset.digest())
            .or_insert_with(|| Content::of(asset))
    }

    /// Demand on a provider beyond its capacity; 0 if the demand fits.
    pub fn excess(&self, provider: usize) -> u64 {
        let has = |content: &Content| content.own;
        let there = self.resources[provider].content.as_ref().map_or(0, has);
        self.used(provider).saturating_sub(there)
    }

    /// The consumers of a provider, with the capacity that each uses.
    pub fn users(&self, provider: usize) -> Vec<(usize, u64)> {
        let uses = |(at, resource): (usize, &Resource)| {
            let (of, uses) = resource.content.as_ref()?.uses?;
            (of == provider).then_some((at, uses))
        };
        self.resources.iter().enumerate().filter_map(uses).collect()
    }

    /// Total demand on a provider by the contents in production.
    pub fn used(&self, provider: usize) -> u64 {
        self.users(provider).iter().map(|(_, uses)| uses).sum()
    }

    /// Number of resources that run a version above that of their schema.
    pub fn too_new(&self, schema: usize) -> usize {
        let version = |content: &Content| content.version;
        let there = self.resources[schema].content.as_ref().map_or(0, version);
        let contents = self.resources.iter().filter_map(|it| it.content.as_ref());
        contents
            .filter(|content| content.schema == Some(schema) && content.version > there)
            .count()
    }

    /// The providers, and the schemas, whose limits a change of a resource to the content `to` may break.
    pub fn touched(&self, at: usize, to: Option<Content>) -> (Vec<usize>, Vec<usize>) {
        let from = self.resources[at].content;
        let contents = || [from, to].into_iter().flatten();
        let providers = contents().filter_map(|content| content.uses);
        let mut providers: Vec<usize> = providers.map(|(of, _)| of).chain([at]).collect();
        providers.dedup();
        let schemas = contents().filter_map(|content| content.schema);
        let mut schemas: Vec<usize> = schemas.chain([at]).collect();
        schemas.dedup();
        (providers, schemas)
    }

    /// A person changes a resource by hand. `None` deletes it.
    pub fn by_hand(&mut self, now: Instant, at: usize, to: Option<Content>) {
        let (providers, schemas) = self.touched(at, to);
        for touched in providers.into_iter().chain(schemas) {
            self.resources[touched].hand_at = Some(now);
        }
        let resource = &mut self.resources[at];
        resource.before_hand = resource.before_hand.or(resource.content);
        resource.changed_by_hand = Some(now);
        resource.put(now, to);
    }

    /// Reverts manual changes. Otherwise a resource that is no longer enforced would keep its change, and its
    /// neighbours could wait for it for ever.
    pub fn undo_by_hand(&mut self, now: Instant) {
        for at in 0..self.resources.len() {
            let before = self.resources[at].before_hand;
            if let (Some(before), Some(_)) = (before, self.resources[at].content) {
                self.by_hand(now, at, Some(before));
            }
        }
    }

    /// Whether a push that began at `started` may rest on evidence from before the last manual change of `at`.
    pub fn is_innocent(&self, at: usize, started: Instant) -> bool {
        let hand = self.resources[at].hand_at;
        hand.is_some_and(|hand| started <= hand + EVIDENCE)
    }
}
