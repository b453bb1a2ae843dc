//! The task that injects faults at intervals: in processes, the store, production, checks, and by operators.

use std::time::Duration;

use super::{process, store};
use crate::{
    faults::Fault,
    gates::SCOPES,
    people,
    production::Lie,
    world::{State, World},
};

/// Injects faults at random intervals until the phase with faults is over.
pub async fn drive(world: World) {
    loop {
        let wait = {
            let mut state = world.state();
            let most = state.scenario.trouble_every * 2;
            state.random.between(Duration::from_millis(500), most)
        };
        world.sleep(wait).await;
        if world.state().healed {
            return;
        }
        for place in 0..2 {
            process::disturb(&world, place);
        }
        store::disturb(&world);
        {
            let mut state = world.state();
            state.close_checks();
            state.drift();
            state.lie();
            state.go_out();
        }
        people::meddle(&world);
    }
}

impl State {
    fn close_checks(&mut self) {
        if self.strikes(Fault::CheckSaysNo) {
            let (check, scope) = (self.random.below(2), self.random.below(SCOPES));
            let most = Duration::from_secs(120);
            let until = self.now + self.random.between(Duration::from_secs(2), most);
            self.gates.close(check, scope, until);
        }
    }

    /// A person changes a resource in production by hand.
    fn drift(&mut self) {
        for fault in [
            Fault::DriftContent,
            Fault::DriftCapacity,
            Fault::DriftDeletion,
        ] {
            if !self.strikes(fault) {
                continue;
            }
            let at = self.random.below(self.production.resources.len());
            let Some(mut content) = self.production.resources[at].content else {
                continue;
            };
            if self.production.resources[at].applying.is_some() {
                continue;
            }
            let now = self.now;
            self.trace.note(
                now,
                crate::executor::NodeId::WORLD,
                "changed by hand",
                Some(at),
                [fault as u64, 0],
            );
            let before = Some(content);
            content.mark ^= 1;
            match fault {
                Fault::DriftContent => {
                    // No other asset depends on the mark, so this change excuses no push: `hand_at` stays as it is.
                    let busy = Duration::from_secs(self.random.below(30) as u64);
                    let resource = &mut self.production.resources[at];
                    resource.content = Some(content);
                    resource.changed_by_hand = Some(now);
                    resource.busy_until = now + busy;
                }
                Fault::DriftCapacity => {
                    content.own /= 2;
                    content.uses = content.uses.map(|(parent, uses)| (parent, uses * 2));
                    self.production.by_hand(now, at, Some(content));
                }
                _ => self.production.by_hand(now, at, None),
            }
            self.drifted(at, before);
        }
    }

    /// Every call to the provider fails for a while.
    fn go_out(&mut self) {
        if self.strikes(Fault::Outage) {
            let most = Duration::from_secs(90);
            self.out_until = self.now + self.random.between(Duration::from_secs(5), most);
        }
    }

    /// The plugin of an asset without neighbours gives wrong diffs for a while, or the asset is marked as another
    /// system's.
    fn lie(&mut self) {
        let at = 2 + self.random.below(6);
        if self.plan.wishes[at].pool {
            return;
        }
        let most = Duration::from_secs(300);
        let until = self.now + self.random.between(Duration::from_secs(5), most);
        if self.strikes(Fault::LieDirty) {
            let lie = [Lie::Dirty, Lie::Flapping][self.random.below(2)];
            self.production.resources[at].lies = Some((lie, until));
        } else if self.strikes(Fault::LieClean) {
            self.production.resources[at].lies = Some((Lie::Clean, until));
        }
        if self.strikes(Fault::Foreign) {
            self.production.resources[at].foreign_until = until;
        }
    }
}
