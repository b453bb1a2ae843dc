//! Differences between two snapshots, found by a walk through both trees that skips their common parts.
//!
//! A subtree is skipped when both sides have it at the same location of the same pack, or, in a comparison of content
//! only, when the digests are equal. The boundaries of nodes depend on ids only, so both walks reach the same
//! boundaries again soon after a change.

use std::{cmp::Ordering, sync::Arc};

use super::{
    Change, Inner, Relocation,
    node::Node,
    pack::Location,
    table::{Packs, Slot},
};
use crate::{asset::Asset, asset::Block, digest::Digest};

/// The assets whose content differs.
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

/// The assets whose content or location differs.
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

/// The walks through both trees.
struct Pair<'a> {
    old: Side<'a>,
    new: Side<'a>,
    /// Whether subtrees with equal digests are skipped, even at different locations.
    by_content: bool,
    /// Numbers of packs that differ between the two sides: equal locations in them are not equal blocks.
    apart: Vec<u32>,
}

impl<'a> Pair<'a> {
    fn new(old: &'a Inner, new: &'a Inner) -> Self {
        Self {
            old: Side::new(old),
            new: Side::new(new),
            by_content: false,
            apart: apart(&old.packs, &new.packs),
        }
    }

    fn run(&mut self, found: &mut Found<'_>) {
        loop {
            match (self.old.here(), self.new.here()) {
                (None, None) => return,
                (Some(old), Some(new)) if old.height == new.height && self.same(old, new) => {
                    let run = self.run_of_same();
                    self.old.step(run);
                    self.new.step(run);
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

    /// Reports two assets that are not the same block. Advances past the one with the lower id, or past both if the ids
    /// are equal.
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
            self.old.step(1);
        }
        if order.is_ge() {
            self.new.step(1);
        }
        found(
            before.filter(|_| order.is_le()),
            after.filter(|_| order.is_ge()),
        );
    }

    fn same(&self, old: Item, new: Item) -> bool {
        (old.at == new.at && self.apart.binary_search(&old.at.pack).is_err())
            || (self.by_content && old.height > 0 && self.old.digest(old) == self.new.digest(new))
    }

    /// The number of items, from the present one on, that have equal locations on both sides. The present item is
    /// equal.
    fn run_of_same(&self) -> usize {
        let (old, new) = (self.old.places(), self.new.places());
        let pairs = old.chunks_exact(8).zip(new.chunks_exact(8)).skip(1);
        match self.apart.is_empty() {
            true => 1 + pairs.take_while(|(old, new)| old == new).count(),
            false => 1,
        }
    }
}

/// The numbers that name different packs on the two sides. For example, two drafts can both have written pack 7.
fn apart(old: &Packs, new: &Packs) -> Vec<u32> {
    let mut others = new.0.iter().peekable();
    let differs = |slot: &&Slot| {
        while others.next_if(|other| other.no < slot.no).is_some() {}
        let other = others.next_if(|other| other.no == slot.no);
        other.is_some_and(|other| !Arc::ptr_eq(&slot.bytes, &other.bytes))
    };
    old.0.iter().filter(differs).map(|slot| slot.no).collect()
}

/// A subtree, or an asset if its height is 0.
#[derive(Clone, Copy)]
struct Item {
    at: Location,
    height: u8,
}

/// The walk through one of the two trees.
struct Side<'a> {
    packs: &'a Packs,
    /// The whole tree, until the walk enters or skips it.
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

    /// The locations from the present item to the end of its node, as bytes.
    fn places(&self) -> &'a [u8] {
        let here = self.path.last();
        here.map_or(&[], |(node, nth)| &node.places()[8 * nth..])
    }

    /// Advances past `run` items of the present node.
    fn step(&mut self, mut run: usize) {
        while let Some((node, nth)) = self.path.last_mut() {
            *nth += run;
            if *nth < node.count() {
                return;
            }
            self.path.pop();
            run = 1;
        }
        self.root = None;
    }

    fn digest(&self, item: Item) -> Digest {
        Block::digest_at(self.packs.tail(item.at))
    }
}
