//! Writes the pack of one edit: appends blocks, hashes nodes, and counts the live units of older packs.

use std::{ops::Range, sync::Arc};

use super::{
    node::{GROUP, HEADER, MOST, Node, Tree},
    pack::{Location, NODE, UNIT, units},
    table::{Packs, Slot},
};
use crate::{asset::Asset, digest::Digest};

/// The pack under construction, on top of the older packs.
pub(super) struct Writer<'a> {
    old: &'a Packs,
    no: u32,
    out: Vec<u8>,
    /// Number of live units, for each slot of `old`.
    live: Vec<u32>,
    /// Number of units of `out` that are garbage.
    dead: u32,
}

impl<'a> Writer<'a> {
    /// Starts pack `no`. If an earlier edit of the same draft has written pack `no`, continues that pack in a copy.
    pub(super) fn new(old: &'a Packs, no: u32, capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        let mut dead = 0;
        if let Some(slot) = old.slot(no) {
            out.extend_from_slice(&slot.bytes);
            dead = (out.len() / UNIT) as u32 - slot.live;
        }
        Self {
            old,
            no,
            out,
            live: old.0.iter().map(|slot| slot.live).collect(),
            dead,
        }
    }

    /// The bytes from `at` to the end of its pack, in this pack or an older one.
    fn tail(&self, at: Location) -> &[u8] {
        if at.pack == self.no {
            &self.out[at.start()..]
        } else {
            self.old.tail(at)
        }
    }

    /// The node at `at`, in this pack or an older one.
    pub(super) fn node_at(&self, at: Location) -> Node<'_> {
        Node::read(self.tail(at))
    }

    /// Counts the block at `at` as garbage.
    pub(super) fn bury(&mut self, at: Location) {
        let units = units(self.tail(at));
        if at.pack == self.no {
            self.dead += units;
        } else if let Some(index) = self.old.index(at.pack) {
            self.live[index] -= units;
        }
    }

    /// Reserves memory for `bytes` more bytes.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// Copies an asset into the pack and returns its location.
    pub(super) fn asset(&mut self, asset: &Asset) -> Location {
        let at = self.here();
        self.out.extend_from_slice(asset.block().bytes());
        self.pad();
        at
    }

    /// Writes a node into the pack and returns its location.
    pub(super) fn node(
        &mut self,
        tree: Tree,
        level: u8,
        locations: &[Location],
        keys: &[u8],
    ) -> Location {
        let places: &[Location] = match tree.locates(level) {
            true => locations,
            false => &[],
        };
        let at = self.here();
        let groups = 32 * tree.groups(locations.len());
        let length = (HEADER + groups + 8 * places.len() + keys.len()) as u32;
        self.out.extend_from_slice(&[0; 32]);
        self.out.extend_from_slice(&(length | NODE).to_le_bytes());
        // A node has at most 48 locations.
        let head = [level, tree as u8, locations.len() as u8, 0];
        self.out.extend_from_slice(&head);
        self.out.resize(self.out.len() + groups, 0);
        for place in places {
            self.out.extend_from_slice(&place.pack.to_le_bytes());
            self.out.extend_from_slice(&place.unit.to_le_bytes());
        }
        self.out.extend_from_slice(keys);
        self.pad();
        self.hash(at, u8::MAX);
        at
    }

    /// Writes a copy of `node` with some of its entries at other locations. The keys do not change.
    pub(super) fn moved(
        &mut self,
        node: Node<'_>,
        moves: impl Iterator<Item = (usize, Location)>,
    ) -> Location {
        let at = self.here();
        let places = at.start() + node.places_start();
        self.out.extend_from_slice(node.bytes());
        self.pad();
        let mut changed = 0;
        for (nth, to) in moves {
            if self.tail(node.location(nth))[..32] != self.tail(to)[..32] {
                changed |= 1 << (nth / GROUP);
            }
            let place = places + 8 * nth;
            self.out[place..place + 4].copy_from_slice(&to.pack.to_le_bytes());
            self.out[place + 4..place + 8].copy_from_slice(&to.unit.to_le_bytes());
        }
        self.hash(at, changed);
        at
    }

    /// Computes the digest of the node at `at` in this pack again. `changed` has a bit for each group of children that
    /// changed.
    fn hash(&mut self, at: Location, changed: u8) {
        let start = at.start();
        let node = self.node_at(at);
        let (tree, level, count) = (node.tree(), node.level(), node.count());
        if tree == Tree::References || changed == 0 {
            return;
        }
        for group in 0..tree.groups(count) {
            if changed & 1 << group != 0 {
                let digest = self.group(at, GROUP * group..count.min(GROUP * (group + 1)));
                let place = start + HEADER + 32 * group;
                self.out[place..place + 32].copy_from_slice(&digest.0);
            }
        }
        let groups = self.node_at(at).groups();
        let mut all = [0; 1 + 32 * MOST.div_ceil(GROUP)];
        all[0] = level;
        all[1..1 + groups.len()].copy_from_slice(groups);
        let digest = Digest::of(&all[..1 + groups.len()]);
        self.out[start..start + 32].copy_from_slice(&digest.0);
    }

    /// The digest over the digests of some children of the node at `at`.
    fn group(&self, at: Location, children: Range<usize>) -> Digest {
        let node = self.node_at(at);
        let mut all = [0; 32 * GROUP];
        let length = 32 * children.len();
        for (place, child) in all.chunks_exact_mut(32).zip(children) {
            place.copy_from_slice(&self.tail(node.location(child))[..32]);
        }
        Digest::of(&all[..length])
    }

    /// The table with the new pack, without the packs that have no live blocks left.
    pub(super) fn finish(mut self) -> Packs {
        let mut slots = Vec::with_capacity(self.live.len() + 1);
        for (slot, &live) in self.old.0.iter().zip(&self.live) {
            if live > 0 && slot.no != self.no {
                let bytes = Arc::clone(&slot.bytes);
                slots.push(Slot {
                    live,
                    bytes,
                    ..*slot
                });
            }
        }
        let live = (self.out.len() / UNIT) as u32 - self.dead;
        if live > 0 {
            self.out.shrink_to_fit();
            slots.push(Slot {
                no: self.no,
                live,
                bytes: Arc::new(self.out),
            });
        }
        Packs(slots)
    }

    fn here(&self) -> Location {
        let unit = u32::try_from(self.out.len() / UNIT);
        assert!(unit.is_ok(), "one incarnation must write at most 32 GiB");
        Location {
            pack: self.no,
            unit: unit.unwrap_or_default(),
        }
    }

    fn pad(&mut self) {
        self.out.resize(self.out.len().next_multiple_of(UNIT), 0);
    }
}
