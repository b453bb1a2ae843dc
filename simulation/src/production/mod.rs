//! Production: resources with contents, applied slowly. It knows of contents, tokens and time, of nothing else.

mod content;
mod resource;

use std::{collections::BTreeMap, time::Duration};

use prodspec_model::{Asset, Digest};

pub use content::Content;
pub use resource::{Applying, Lie, Push, Refused, Resource};

use crate::{executor::Instant, intent::Plan};

/// All resources.
pub struct Production {
    /// By asset number.
    pub resources: Vec<Resource>,
    /// How many changes took effect.
    pub effective: u64,
    /// What took effect where, in order. Nothing for a turndown.
    pub took_effect: Vec<(usize, Option<Content>)>,
    /// How many resources were taken out on request.
    pub removed: u64,
    /// When something was last changed on request.
    pub last_push: Instant,
    contents: BTreeMap<Digest, Content>,
}

/// For how long evidence from before a change by hand may still be acted on (R10).
pub const EVIDENCE: Duration = Duration::from_secs(61);

impl Production {
    /// Nothing is there yet.
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

    /// What an asset says. Remembered, since the same contents come again and again.
    pub fn content(&mut self, asset: &Asset) -> Content {
        *self
            .contents
            .entry(asset.digest())
            .or_insert_with(|| Content::of(asset))
    }

    /// By how much more is used of a provider than it has.
    pub fn excess(&self, provider: usize) -> u64 {
        let has = |content: &Content| content.own;
        let there = self.resources[provider].content.as_ref().map_or(0, has);
        self.used(provider).saturating_sub(there)
    }

    /// Who uses a provider, and how much.
    pub fn users(&self, provider: usize) -> Vec<(usize, u64)> {
        let uses = |(at, resource): (usize, &Resource)| {
            let (of, uses) = resource.content.as_ref()?.uses?;
            (of == provider).then_some((at, uses))
        };
        self.resources.iter().enumerate().filter_map(uses).collect()
    }

    /// What is used of a provider, by the contents that are in production.
    pub fn used(&self, provider: usize) -> u64 {
        self.users(provider).iter().map(|(_, uses)| uses).sum()
    }

    /// Who runs a version above that of the schema it needs.
    pub fn too_new(&self, schema: usize) -> usize {
        let version = |content: &Content| content.version;
        let there = self.resources[schema].content.as_ref().map_or(0, version);
        let contents = self.resources.iter().filter_map(|it| it.content.as_ref());
        contents
            .filter(|content| content.schema == Some(schema) && content.version > there)
            .count()
    }

    /// Whose balance a change from one content to another may upset.
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

    /// Somebody changes a resource by hand.
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

    /// People put right what they changed by hand: what nobody enforces stays as it is otherwise, and its neighbours may
    /// wait for that for ever.
    pub fn undo_by_hand(&mut self, now: Instant) {
        for at in 0..self.resources.len() {
            let before = self.resources[at].before_hand;
            if let (Some(before), Some(_)) = (before, self.resources[at].content) {
                self.by_hand(now, at, Some(before));
            }
        }
    }

    /// Whether a push that started at `started` cannot have known of what was done to `at` by hand.
    pub fn is_innocent(&self, at: usize, started: Instant) -> bool {
        let hand = self.resources[at].hand_at;
        hand.is_some_and(|hand| started <= hand + EVIDENCE)
    }
}
