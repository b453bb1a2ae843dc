//! Copying forward: keeps the number of packs, and the garbage in them, small.
//!
//! A block is live while the snapshot reaches it, and garbage after that. Edits leave garbage in older packs. An edit
//! therefore moves all live blocks out of some packs:
//!
//! - When 64 packs have about the same size: out of all of them. Small packs thus merge into larger ones, as in a
//!   log-structured merge tree: a block moves at most once each time the size of its pack grows by a factor of 64, and
//!   the number of packs grows with the logarithm of the content.
//! - When there is more garbage than live content: out of the pack with the greatest share of garbage. An edit then
//!   copies no more bytes than it frees. The freed bytes were written by earlier edits, so over time the copies are at
//!   most as large as those edits.

use std::borrow::Cow;

use super::{
    Inner,
    node::{Node, Tree},
    pack::{Location, NODE, UNIT, length_word, units},
    rewrite::{Op, To},
    table::{Packs, Slot},
    walk,
};
use crate::asset::Asset;

/// Two sizes within this factor are about the same; and so many packs of about the same size are merged.
const ALIKE: usize = 64;
/// The amount of garbage, in units of 8 bytes, that is always tolerated: 1 MiB.
const SLACK: u64 = (1 << 20) / UNIT as u64;

/// The live blocks of the packs that are to be emptied.
#[derive(Default)]
pub(super) struct Moving<'a> {
    pub(super) assets: Vec<(Asset, Location)>,
    /// The nodes to copy, each with its tree, its level and an operation on its first key.
    pub(super) nodes: Vec<(Tree, u8, Op<'a>)>,
}

/// Finds the blocks that an edit should move when it writes pack `no`.
pub(super) fn moving(old: &Inner, no: u32) -> Moving<'_> {
    let mut moving = Moving::default();
    for slot in leaving(&old.packs, no) {
        collect(old, slot, &mut moving);
    }
    moving
}

/// The packs that are to be emptied. Usually none.
fn leaving(packs: &Packs, no: u32) -> Vec<&Slot> {
    let others = || packs.0.iter().filter(|slot| slot.no != no);
    let size = |slot: &Slot| (slot.live.ilog2() / ALIKE.ilog2()) as usize;
    let mut sizes = [0; 6];
    for slot in others() {
        sizes[size(slot)] += 1;
    }
    if let Some(many) = sizes.iter().position(|&count| count >= ALIKE) {
        return others().filter(|slot| size(slot) == many).collect();
    }
    let written = |slot: &Slot| (slot.bytes.len() / UNIT) as u64;
    let all: u64 = others().map(written).sum();
    let live: u64 = others().map(|slot| u64::from(slot.live)).sum();
    if all <= 2 * live + SLACK {
        return Vec::new();
    }
    let share = |slot: &Slot| u64::from(slot.live) * 1_000 / written(slot).max(1);
    let emptiest = others().min_by_key(|slot| (share(slot), slot.no));
    emptiest.into_iter().collect()
}

/// Adds every live block of the pack in `slot` to `moving`.
fn collect<'a>(old: &'a Inner, slot: &'a Slot, moving: &mut Moving<'a>) {
    let mut left = slot.live;
    let mut unit = 0;
    while left > 0 {
        let at = Location {
            pack: slot.no,
            unit,
        };
        let Some(tail) = slot.bytes.get(at.start()..).filter(|t| !t.is_empty()) else {
            break;
        };
        let reached = match length_word(tail) & NODE {
            0 => asset(old, at, moving),
            _ => node(old, at, Node::read(tail), moving),
        };
        if reached {
            left -= units(tail);
        }
        unit += units(tail);
    }
}

fn asset(old: &Inner, at: Location, moving: &mut Moving<'_>) -> bool {
    let Some(asset) = old.packs.asset(at) else {
        return false;
    };
    let reached = old.locate(asset.id_str()) == Some(at);
    if reached {
        moving.assets.push((asset, at));
    }
    reached
}

fn node<'a>(old: &'a Inner, at: Location, node: Node<'a>, moving: &mut Moving<'a>) -> bool {
    let root = match node.tree() {
        Tree::Assets => old.assets,
        Tree::References => old.references,
    };
    let (key, level) = (node.first_key(), node.level());
    let reached = root.is_some_and(|root| {
        old.packs.node(root).level() >= level && walk::seek(&old.packs, root, level, key).0 == at
    });
    if reached {
        let op = Op {
            key: Cow::Borrowed(key),
            to: To::Touch,
        };
        moving.nodes.push((node.tree(), level, op));
    }
    reached
}
