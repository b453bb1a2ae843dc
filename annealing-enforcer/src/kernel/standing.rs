//! How assets with a pin of their own stand, for whoever moves pins: only a diff that started after the pin moved says
//! that an asset is where it was pinned (R20).

use plane_store::records::{Standing, StandingPin, Stands};
use plugin_sdk::{Delay, Now, Recheck};
use prodspec_model::AssetId;

use super::{
    Kernel,
    branch::Bug,
    event::{Effects, FeedItem, Pin},
    iteration::Phase,
    slot::flag,
};

/// Of how many whom an asset waits for the strategist is told. The next ones follow once those have settled.
const TOLD: usize = 64;

/// What was found of an asset since its pin moved.
#[derive(Debug, Clone)]
pub(super) struct Stand {
    /// Calls up to this one started before the pin moved.
    pub(super) after: u32,
    /// A later one has said in sync, or nobody has moved it but the kernel itself.
    pub(super) confirmed: bool,
    pub(super) state: Stands,
    /// What its own health check said of the last push, if it failed it: until the pin moves, or the next push.
    pub(super) unhealthy: Option<String>,
}

impl Kernel {
    /// Somebody moved the asset's pin: what was found before does not count.
    pub(super) fn stand_anew(&mut self, now: Now, slot: u32, out: &mut Effects) {
        if self.table.is_pinned(slot) {
            let entry = self.table.slot(slot);
            // Without intent there is nothing to look at.
            let nothing = !self.table.has_intent(slot) && !entry.in_flight();
            let old = entry.has(flag::IN_SYNC) && self.planted(Bug::SettledBeforePin);
            let stand = Stand {
                after: entry.n,
                confirmed: nothing,
                state: if nothing || old {
                    Stands::InSync { since: now.wall }
                } else {
                    out_of_sync(now)
                },
                unhealthy: None,
            };
            self.standings.insert(slot, stand);
        } else if self.standings.remove(&slot).is_none() {
            return;
        }
        self.tell_standing(slot, out);
    }

    /// The kernel pinned the asset where it was: what was found still counts.
    pub(super) fn stand_in_place(&mut self, now: Now, slot: u32, out: &mut Effects) {
        let entry = self.table.slot(slot);
        let stand = Stand {
            after: entry.n.wrapping_sub(1),
            confirmed: entry.has(flag::IN_SYNC) || !self.table.has_intent(slot),
            state: self.default_state(now, slot),
            unhealthy: None,
        };
        self.standings.insert(slot, stand);
        self.tell_standing(slot, out);
    }

    /// A diff said in sync, or that there is nothing more to do. Says whether that confirms a moved pin.
    pub(super) fn stands_in_sync(&mut self, now: Now, slot: u32, out: &mut Effects) -> bool {
        if self.standings.is_empty() {
            return false;
        }
        let at = self.table.slot(slot).iteration;
        let run = self.iterations.at(at).map(|it| it.run);
        let planted = self.planted(Bug::SettledBeforePin);
        let Some(stand) = self.standings.get_mut(&slot) else {
            return false;
        };
        let after = |run: u32| run.wrapping_sub(stand.after).cast_signed() > 0;
        if !planted && !stand.confirmed && !run.is_some_and(after) {
            return false;
        }
        let news = !std::mem::replace(&mut stand.confirmed, true);
        if !matches!(stand.state, Stands::InSync { .. }) {
            stand.state = Stands::InSync { since: now.wall };
            self.tell_standing(slot, out);
        }
        news
    }

    /// Without intent, and with no push in flight any more, there is nothing to look at.
    pub(super) fn stands_alone(&mut self, now: Now, slot: u32, out: &mut Effects) {
        let Some(stand) = self.standings.get_mut(&slot) else {
            return;
        };
        stand.confirmed = true;
        if !matches!(stand.state, Stands::InSync { .. }) {
            stand.state = Stands::InSync { since: now.wall };
            self.tell_standing(slot, out);
        }
    }

    pub(super) fn stands_out_of_sync(&mut self, now: Now, slot: u32, out: &mut Effects) {
        if let Some(stand) = self.standings.get_mut(&slot)
            && matches!(stand.state, Stands::InSync { .. })
        {
            stand.state = out_of_sync(now);
            self.tell_standing(slot, out);
        }
    }

    /// The checks said whom the asset waits for: nobody, if it may be pushed.
    pub(super) fn stands_waiting(&mut self, slot: u32, delays: &[Delay], out: &mut Effects) {
        let Some(stand) = self.standings.get_mut(&slot) else {
            return;
        };
        let Stands::OutOfSync { waits_for, why, .. } = &mut stand.state else {
            return;
        };
        let held = |delay: &&Delay| !matches!(delay.recheck, Recheck::WhenSettled(_));
        let held = delays.iter().find(held);
        let held = held.map(|delay| format!("{}: {}", delay.check, delay.reason));
        let named = delays.iter().filter_map(|delay| match &delay.recheck {
            Recheck::WhenSettled(other) => Some(other.clone()),
            _ => None,
        });
        let mut named: Vec<AssetId> = named.collect();
        named.sort();
        named.dedup();
        named.truncate(TOLD);
        if *waits_for != named || *why != held {
            (*waits_for, *why) = (named, held);
            self.tell_standing(slot, out);
        }
    }

    /// A person has to act before the asset is pushed.
    pub(super) fn stands_held(&mut self, slot: u32, because: &str, out: &mut Effects) {
        let Some(stand) = self.standings.get_mut(&slot) else {
            return;
        };
        let Stands::OutOfSync { why, .. } = &mut stand.state else {
            return;
        };
        if why.as_deref() != Some(because) {
            *why = Some(because.to_owned());
            self.tell_standing(slot, out);
        }
    }

    /// A push went where it was meant to, and the asset's own health check failed it. That is remembered: a diff that
    /// finds it in sync says nothing about its health.
    pub(super) fn stands_unhealthy(&mut self, now: Now, slot: u32, why: String, out: &mut Effects) {
        let entry = self.table.slot(slot);
        let moved = |it: &super::iteration::Iteration| it.pin != entry.pin;
        if self.iterations.at(entry.iteration).is_none_or(moved) {
            return;
        }
        if let Some(stand) = self.standings.get_mut(&slot) {
            stand.unhealthy = Some(why.clone());
            stand.state = Stands::Unhealthy { why };
            self.tell_standing(slot, out);
            self.remember(now, slot, out);
        }
    }

    /// Another push begins: what was said of the one before counts no more.
    pub(super) fn forget_unhealthy(&mut self, slot: u32) {
        if let Some(stand) = self.standings.get_mut(&slot) {
            stand.unhealthy = None;
        }
    }

    pub(super) fn unhealthy(&self, slot: u32) -> Option<&String> {
        self.standings.get(&slot)?.unhealthy.as_ref()
    }

    /// Whether a moved pin waits for a diff that nothing under way will bring.
    pub(super) fn awaits_look(&self, slot: u32) -> bool {
        let entry = self.table.slot(slot);
        let it = self.iterations.at(entry.iteration);
        let diffing = it.is_some_and(|it| matches!(it.phase, Phase::Diffing));
        (entry.has(flag::IN_SYNC) || diffing)
            && self.standings.get(&slot).is_some_and(|it| !it.confirmed)
    }

    pub(super) fn tell_standing(&mut self, slot: u32, out: &mut Effects) {
        if let Some(told) = self.standing(slot) {
            tell(told, out);
        }
    }

    /// An asset that is not enforced here, or not known any more, has no pin of its own.
    pub(super) fn tell_unknown(&mut self, now: Now, id: &AssetId, out: &mut Effects) {
        let standing = Standing {
            pin: StandingPin::Default,
            content: None,
            state: Stands::InSync { since: now.wall },
        };
        tell((id.clone(), standing), out);
    }

    /// How every asset with a pin of its own stands.
    pub fn standings(&self) -> Vec<(AssetId, Standing)> {
        let slots = self.standings.keys();
        slots.filter_map(|&slot| self.standing(slot)).collect()
    }

    /// The same for somebody who begins to listen: of ill health they hear first, whatever was found since.
    pub fn followed(&mut self) -> Vec<(AssetId, Standing)> {
        for stand in self.standings.values_mut() {
            if let Some(why) = stand.unhealthy.clone() {
                stand.state = Stands::Unhealthy { why };
            }
        }
        self.standings()
    }

    fn standing(&self, slot: u32) -> Option<(AssetId, Standing)> {
        let pin = match self.table.pin_of(slot) {
            Pin::Default => StandingPin::Default,
            Pin::NotYet => StandingPin::NotYet,
            Pin::At(incarnation, _) => StandingPin::At(incarnation.no()),
        };
        let content = self.table.content(slot);
        let state = match self.standings.get(&slot) {
            Some(stand) => stand.state.clone(),
            None => self.default_state(self.stepped, slot),
        };
        let standing = Standing {
            pin,
            content,
            state,
        };
        Some((self.table.id(slot)?, standing))
    }

    fn default_state(&self, now: Now, slot: u32) -> Stands {
        let entry = self.table.slot(slot);
        if entry.has(flag::IN_SYNC) || !self.table.has_intent(slot) {
            Stands::InSync { since: now.wall }
        } else {
            out_of_sync(now)
        }
    }
}

fn tell(told: (AssetId, Standing), out: &mut Effects) {
    match out.feed.last_mut() {
        Some(FeedItem::Stands(stands)) => stands.push(told),
        _ => out.feed.push(FeedItem::Stands(vec![told])),
    }
}

/// Not in sync, as far as anybody has looked.
pub(super) fn out_of_sync(now: Now) -> Stands {
    Stands::OutOfSync {
        since: now.wall,
        waits_for: Vec::new(),
        why: None,
    }
}
