//! Differences between two snapshots, found by walking both trees and passing over what they share.
//!
//! A subtree is passed over when both sides have it at one place of one pack, or, where only content counts, when the
//! digests agree. Ends of nodes depend on ids only, so the two walks fall into step again right after a change.

use std::{cmp::Ordering, sync::Arc};

use super::{
    Change, Inner, Relocation,
    node::Node,
    pack::{Location, Packs},
};
use crate::{asset::Asset, asset::Block, digest::Digest};

/// What differs in content.
pub(super) fn content(old: &Inner, new: &Inner) -> Vec<Change> {
    let mut found = Vec::new();
    let mut pair = Pair::new(old, new);
    pair.by_content = true;
    pair.run(&mut |before, after| {
        let side = |(_, asset): (Location, Asset)| asset;
        let (before, after) = (before.map(side), after.map(side));
        if before != after {
            found.push(Change { before, after });
        }
    });
    found
}

/// What differs in content or place.
pub(super) fn places(old: &Inner, new: &Inner) -> Vec<Relocation> {
    let mut found = Vec::new();
    Pair::new(old, new).run(&mut |before, after| {
        let changed = match (&before, &after) {
            (Some((_, before)), Some((_, after))) => before != after,
            _ => true,
        };
        let place = |(at, _): (Location, Asset)| at;
        let (before, after) = (before.map(place), after.map(place));
        if changed || before != after {
            found.push(Relocation {
                before,
                after,
                changed,
            });
        }
    });
    found
}

type Found<'f> = dyn FnMut(Option<(Location, Asset)>, Option<(Location, Asset)>) + 'f;

/// Both walks.
struct Pair<'a> {
    old: Side<'a>,
    new: Side<'a>,
    by_content: bool,
    shared: Shared<'a>,
}

impl<'a> Pair<'a> {
    fn new(old: &'a Inner, new: &'a Inner) -> Self {
        Self {
            old: Side::new(old),
            new: Side::new(new),
            by_content: false,
            shared: Shared {
                old: &old.packs,
                new: &new.packs,
                last: None,
            },
        }
    }

    fn run(&mut self, found: &mut Found<'_>) {
        loop {
            match (self.old.here(), self.new.here()) {
                (None, None) => return,
                (Some(old), Some(new)) if old.height == new.height && self.same(old, new) => {
                    self.old.step();
                    self.new.step();
                }
                (old, new) => {
                    let height = |item: Option<Item>| item.map_or(0, |item| item.height);
                    let highest = height(old).max(height(new));
                    if highest == 0 {
                        self.entries(old, new, found);
                        continue;
                    }
                    if height(old) == highest {
                        self.old.enter();
                    }
                    if height(new) == highest {
                        self.new.enter();
                    }
                }
            }
        }
    }

    /// Compares two entries that are not the same, and passes over the one with the lower id, or both.
    fn entries(&mut self, old: Option<Item>, new: Option<Item>, found: &mut Found<'_>) {
        let read = |packs: &Packs, item: Option<Item>| {
            let at = item?.at;
            Some((at, packs.asset(at)?))
        };
        let before = read(self.old.packs, old);
        let after = read(self.new.packs, new);
        let order = match (&before, &after) {
            (Some((_, before)), Some((_, after))) => before.id_str().cmp(after.id_str()),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        if order.is_le() {
            self.old.step();
        }
        if order.is_ge() {
            self.new.step();
        }
        found(
            before.filter(|_| order.is_le()),
            after.filter(|_| order.is_ge()),
        );
    }

    fn same(&mut self, old: Item, new: Item) -> bool {
        (old.at == new.at && self.shared.holds(old.at.pack))
            || (self.by_content && old.height > 0 && self.old.digest(old) == self.new.digest(new))
    }
}

/// Which packs both sides have: equal numbers alone prove nothing, two drafts may both have written pack 7.
struct Shared<'a> {
    old: &'a Packs,
    new: &'a Packs,
    last: Option<(u32, bool)>,
}

impl Shared<'_> {
    fn holds(&mut self, no: u32) -> bool {
        match self.last {
            Some((last, shared)) if last == no => shared,
            _ => {
                let shared = match (self.old.slot(no), self.new.slot(no)) {
                    (Some(old), Some(new)) => Arc::ptr_eq(&old.bytes, &new.bytes),
                    _ => false,
                };
                self.last = Some((no, shared));
                shared
            }
        }
    }
}

/// A subtree, or an asset when its height is 0.
#[derive(Clone, Copy)]
struct Item {
    at: Location,
    height: u8,
}

/// The walk through one tree.
struct Side<'a> {
    packs: &'a Packs,
    /// The whole tree, until it is entered or passed over.
    root: Option<Item>,
    path: Vec<(Node<'a>, usize)>,
}

impl<'a> Side<'a> {
    fn new(inner: &'a Inner) -> Self {
        let packs = &inner.packs;
        let root = inner.assets.map(|at| Item {
            at,
            height: packs.node(at).level() + 1,
        });
        Self {
            packs,
            root,
            path: Vec::with_capacity(8),
        }
    }

    fn here(&self) -> Option<Item> {
        let Some((node, nth)) = self.path.last() else {
            return self.root;
        };
        Some(Item {
            at: node.location(*nth),
            height: node.level(),
        })
    }

    fn enter(&mut self) {
        if let Some(item) = self.here() {
            self.path.push((self.packs.node(item.at), 0));
        }
    }

    fn step(&mut self) {
        while let Some((node, nth)) = self.path.last_mut() {
            *nth += 1;
            if *nth < node.count() {
                return;
            }
            self.path.pop();
        }
        self.root = None;
    }

    fn digest(&self, item: Item) -> Digest {
        Block::digest_at(self.packs.tail(item.at))
    }
}
