//! Diff calls: they compare an asset with production as it is when the call arrives.

use std::time::Duration;

use plugin_sdk::{Change, Diff, DiffRequest, Effects, FieldChange, Observed, plugin};
use prodspec_model::{Asset, Message, addons};

use super::{Fate, Network};
use crate::{
    deadlines::DIFF,
    executor::{Instant, NodeId},
    faults::Fault,
    intent::{Bad, number, unit},
    production::{Content, Lie},
    world::judge::Call,
    world::{State, World},
};

/// A look at an asset that has not answered.
struct Look {
    world: World,
    node: NodeId,
    at: usize,
    began: Instant,
    has_answered: bool,
}

impl Drop for Look {
    /// A process that stood still gives its look up when the deadline has passed: the look has failed.
    fn drop(&mut self) {
        let mut state = self.world.state();
        let mut processes = state.processes.iter().flatten();
        let is_alive = processes.any(|process| process.node == self.node);
        let is_late = state.now.since(self.began) >= DIFF;
        if !self.has_answered && is_alive && is_late {
            state.stirs(self.at);
        }
    }
}

impl Network {
    /// Carries out a diff call with the faults of the network.
    pub(super) async fn compare(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let at = number(request.asset()?.id_str());
        let mut look = Look {
            world: self.world.clone(),
            node: self.node,
            at,
            began: self.world.executor.now(),
            has_answered: false,
        };
        let diff = self.look(request, at).await;
        look.has_answered = true;
        diff
    }

    async fn look(&self, request: DiffRequest, at: usize) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        self.world.note(
            "diff",
            Some(at),
            [request.token.0, u64::from(request.run.n)],
        );
        self.endanger().await;
        let (there, back, fate) = {
            let mut state = self.world.state();
            state.judge_intent(&Call {
                node: self.node.0,
                asset: &asset,
                incarnation: request.incarnation().no.0,
                token: request.token.0,
                change: None,
                cause: None,
                continuation: false,
                turndown: false,
            });
            if request.token.0 >= state.judge.token {
                state.owner = Some(self.node);
            }
            state.looked_at(at);
            let fate = if state.strikes(Fault::HangDiff) {
                Fate::Hangs
            } else {
                state.fate()
            };
            match &fate {
                Fate::Fine => {}
                Fate::Hangs => state.hindered(at, DIFF),
                Fate::Fails(_) | Fate::Panics => state.hindered(at, Duration::ZERO),
            }
            if !matches!(fate, Fate::Fine) {
                state.stirs(at);
            }
            (state.latency(), state.latency(), fate)
        };
        self.world.verdict();
        if let Some(there) = there {
            self.world.sleep(there).await;
        }
        self.suffer(fate).await?;
        let diff = {
            let mut state = self.world.state();
            let diff = state.diff(&asset, at, request.token.0, request.run.n);
            if !matches!(diff, Ok(Diff::InSync { .. })) {
                state.stirs(at);
            }
            diff
        };
        if let Some(back) = back {
            self.world.sleep(back).await;
        }
        self.pass().await;
        diff
    }
}

impl State {
    /// Production's answer to a diff call.
    fn diff(
        &mut self,
        asset: &Asset,
        at: usize,
        token: u64,
        n: u32,
    ) -> Result<Diff, plugin::Error> {
        let content = self.production.content(asset);
        let turndown = asset.has_addon(addons::Turndown::TYPE);
        let wanted = (!turndown).then_some(content);
        let resource = &mut self.production.resources[at];
        if resource.hear(token, n).is_err() {
            return Err(plugin::Error::fenced("a newer call was received"));
        }
        if resource.applying.is_some() || self.now < resource.busy_until {
            let check_again_in = Duration::from_millis(500);
            return Ok(Diff::InProgress { check_again_in });
        }
        if self.now < resource.foreign_until {
            let owner = "another system".to_owned();
            return Ok(Diff::Foreign { owner });
        }
        let there = resource.content;
        let observed = observed(at, there);
        let lie = resource.lies.filter(|(_, until)| self.now < *until);
        let clean = match lie.map(|(lie, _)| lie) {
            None => there == wanted,
            Some(Lie::Clean) => true,
            Some(Lie::Dirty) => false,
            Some(Lie::Flapping) => n.is_multiple_of(2),
        };
        // Content that never settles differs from production for ever.
        let settles = wanted.is_none_or(|wanted| wanted.bad != Bad::NeverSettles);
        if clean && settles {
            self.unapproved.remove(&at);
            if asset.id() == self.plan.id(at) {
                self.renaming.remove(&at);
            }
            return Ok(Diff::in_sync().observed(observed));
        }
        let change = change(asset, at, there, wanted);
        if turndown {
            self.unapproved.insert(at, change.digest);
        }
        Ok(Diff::differs(change).observed(observed))
    }
}

fn capacities(at: usize, content: Option<Content>) -> Vec<(String, u64)> {
    let own = content.map(|content| (unit(at), content.own));
    let uses = content.and_then(|content| content.uses);
    let uses = uses.map(|(parent, uses)| (unit(parent), uses));
    own.into_iter().chain(uses).collect()
}

fn observed(at: usize, content: Option<Content>) -> Observed {
    let observed = Observed::default().version(content.map(|content| content.version));
    let capacities = capacities(at, content).into_iter();
    capacities.fold(observed, |observed, (unit, amount)| {
        observed.capacity(unit, amount)
    })
}

fn change(asset: &Asset, at: usize, from: Option<Content>, to: Option<Content>) -> Change {
    let effects = Effects::between(&observed(at, from), &observed(at, to));
    let effects = effects.destructive(to.is_none());
    let mark = |content: Option<Content>| content.map_or(0, |content| content.mark);
    let field = FieldChange::new("mark", mark(from), mark(to));
    Change::new(asset, "change it", vec![field], effects)
}
