//! A person's word takes effect.

use plugin_sdk::Now;
use prodspec_model::{AssetId, Digest};

use super::{
    Kernel,
    event::{Effects, Record},
    people::Command,
    slot::{Class, Trigger, flag},
};

impl Kernel {
    pub(super) fn person(&mut self, now: Now, command: Command, out: &mut Effects) {
        for scope in self.people.ended(now.wall) {
            self.record(Record::Person(Command::Resume(scope), now.wall), out);
        }
        self.people.hear(&command);
        match &command {
            Command::Approve(approval) => self.asked(now, &approval.asset),
            Command::Override(word) => self.asked(now, &word.asset),
            Command::LookNow(asset) => return self.asked(now, asset),
            Command::Resume(_) => self.look_at_held(now),
            Command::Acknowledge(asset) => self.acknowledge(now, asset, out),
            Command::Pause(_) => {}
        }
        self.record(Record::Person(command, now.wall), out);
    }

    /// What people said of an asset's changes, or of one of them, holds no longer.
    pub(super) fn words_spent(&mut self, slot: u32, change: Option<Digest>, out: &mut Effects) {
        if self.people.said_nothing() {
            return;
        }
        let Some(id) = self.table.id(slot) else {
            return;
        };
        for (change, check) in self.people.spend(&id, change) {
            self.record(Record::Spent(id.clone(), change, check), out);
        }
    }

    /// A person asks for one asset: whatever it waits for is looked at again now.
    fn asked(&mut self, now: Now, asset: &AssetId) {
        let Some(slot) = self.table.find(asset.as_str()) else {
            return;
        };
        if let Some(it) = self.iterations.at_mut(self.table.slot(slot).iteration) {
            it.asleep = None;
        }
        self.trigger(now, slot, Trigger::Asked, Class::Intent);
    }

    /// A pause ended: whoever waits for a person looks again.
    fn look_at_held(&mut self, now: Now) {
        let held: Vec<u32> = self
            .iterations
            .iter()
            .filter(|it| it.is_held())
            .map(|it| it.slot)
            .collect();
        for slot in held {
            self.trigger(now, slot, Trigger::Asked, Class::Intent);
        }
    }

    /// An orphan is known about: it is forgotten, production keeps it.
    fn acknowledge(&mut self, now: Now, asset: &AssetId, out: &mut Effects) {
        let Some(slot) = self.table.find(asset.as_str()) else {
            return;
        };
        if !self.table.slot(slot).has(flag::ORPHAN) || self.table.slot(slot).in_flight() {
            return;
        }
        self.mark(slot, out, |entry| {
            entry.set(flag::ORPHAN | flag::THERE, false)
        });
        self.edges.settle(asset, Vec::new());
        self.record(Record::Orphan(asset.clone(), None), out);
        self.record(Record::Asset(asset.clone(), None), out);
        self.give_up(now, slot);
    }
}
