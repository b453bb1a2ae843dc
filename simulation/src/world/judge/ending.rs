//! Conditions at the end: production matches intent, pushes have stopped, and acknowledged incarnations are readable.

use prodspec_model::{Asset, Incarnation, Message, addons::Turndown};

use crate::{
    intent::{Kind, number},
    production::Resource,
    world::State,
};

impl State {
    /// L1: production matches `latest`, and no push has arrived for two drift periods. Not judged if policy groups may
    /// wait for each other.
    pub fn judge_rest(&mut self, latest: &Incarnation) {
        self.judge.look("L1");
        if self.plan.mutual {
            return;
        }
        let assets: Vec<Asset> = latest.snapshot().iter().collect();
        for asset in &assets {
            let at = number(asset.id_str());
            let concept = |it: &Resource| it.kind == Kind::Concept;
            if self.production.resources.get(at).is_none_or(concept) {
                continue;
            }
            if self.stubborn.is_some() && self.plan.wishes[at].group == self.stubborn {
                self.judge_stubborn(at);
                continue;
            }
            let content = self.production.content(asset);
            let wanted = (!asset.has_addon(Turndown::TYPE)).then_some(content);
            if !self.production.resources[at].has(wanted) {
                let there = self.production.resources[at].clone();
                self.violated(
                    "L1",
                    format!("asset/{at:02} does not match intent: {there:?}, wanted {wanted:?}"),
                );
            }
        }
        let quiet = self.now.since(self.production.last_push);
        if quiet < self.scenario.drift_period * 2 {
            self.violated(
                "L1",
                format!("pushes do not stop: the last one was {quiet:?} ago"),
            );
        }
    }

    /// L1: the audit has compared production with intent.
    pub fn judge_audited(&mut self) {
        if !self.judge.has_looked_at("L1") {
            self.violated(
                "L1",
                "the audit could not read the acknowledged intent".into(),
            );
        }
    }

    /// L2: no asset has waited for its diff for too long until now.
    pub fn judge_punctual(&mut self) {
        for at in 0..self.judge.assets {
            let wish = self.plan.wishes[at];
            let old = self.now.since(self.unseen_since(at));
            let due = wish.kind != Kind::Concept && wish.exists && self.is_due(at);
            if due && old > self.scenario.drift_period * 2 {
                self.violated("L2", format!("asset/{at:02} was not diffed for {old:?}"));
            }
        }
    }

    /// S7: an acknowledged incarnation is read back as it was sealed.
    pub fn judge_kept(&mut self, sealed: &Incarnation, read: Result<Incarnation, String>) {
        self.judge.look("S7");
        let no = sealed.no();
        match read {
            Ok(read) if read.header() == sealed.header() => {
                if read.snapshot().digest() != sealed.snapshot().digest() {
                    self.violated(
                        "S7",
                        format!("the content of @{no} differs from the sealed one"),
                    );
                }
            }
            Ok(_) => self.violated(
                "S7",
                format!("the header of @{no} differs from the sealed one"),
            ),
            Err(error) => self.violated(
                "S7",
                format!("the acknowledged @{no} cannot be read: {error}"),
            ),
        }
    }
}
