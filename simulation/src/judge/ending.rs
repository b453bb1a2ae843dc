//! What the judge asks in the end: does production match intent, did pushes stop, is what was acknowledged still there.

use prodspec_model::{Asset, Incarnation, Message, addons::Turndown};

use crate::{
    intent::{Kind, number},
    production::Resource,
    world::State,
};

impl State {
    /// L1: production is as `latest` wants it, and nothing was pushed for two drift periods.
    pub fn judge_rest(&mut self, latest: &Incarnation) {
        self.judge.look("L1");
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
                format!("pushes go on: the last one was {quiet:?} ago"),
            );
        }
    }

    /// Production was compared with intent in the end, unless something was violated before.
    pub fn judge_audited(&mut self) {
        if !self.judge.has_looked_at("L1") {
            self.violated("L1", "nobody could read what was acknowledged".into());
        }
    }

    /// L2: nobody was forgotten until now.
    pub fn judge_punctual(&mut self) {
        for at in 0..self.judge.assets {
            let wish = self.plan.wishes[at];
            let old = self.now.since(self.unseen_since(at));
            let due = wish.kind != Kind::Concept && wish.exists && self.is_due(at);
            if due && old > self.scenario.drift_period * 2 {
                self.violated("L2", format!("asset/{at:02} was not looked at for {old:?}"));
            }
        }
    }

    /// S7: an incarnation that was acknowledged reads as it was sealed.
    pub fn judge_kept(&mut self, sealed: &Incarnation, read: Result<Incarnation, String>) {
        self.judge.look("S7");
        let no = sealed.no();
        match read {
            Ok(read) if read.header() == sealed.header() => {
                if read.snapshot().digest() != sealed.snapshot().digest() {
                    self.violated("S7", format!("@{no} reads differently"));
                }
            }
            Ok(_) => self.violated("S7", format!("the header of @{no} reads differently")),
            Err(error) => {
                self.violated("S7", format!("@{no} was acknowledged and is lost: {error}"))
            }
        }
    }
}
