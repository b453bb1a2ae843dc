//! Copying forward: keeps the packs few and mostly alive.
//!
//! An edit leaves garbage in the packs before it. It therefore moves everything still reached out of some of them:
//!
//! - When 64 packs are of about one size, out of all of them. Small packs thus merge into larger ones, as in a
//!   log-structured merge tree: a block moves at most once each time its pack's size has grown 64 times, and the number of
//!   packs grows with the logarithm of the content.
//! - When garbage outweighs what is alive, out of the pack with the greatest share of garbage. That copies no more than
//!   it frees, and what it frees was written by earlier edits: over time, at most as much as those wrote.

use std::borrow::Cow;

use super::{
    Inner,
    node::{Node, Tree},
    pack::{Location, NODE, Packs, Slot, UNIT, length_word, units},
    rewrite::{Op, To},
    walk,
};
use crate::asset::Asset;

/// How many packs may be of about one size, and what about one size is: within this factor.
const ALIKE: usize = 64;
/// Garbage that is not worth moving anything for, in units: 1 MiB.
const SLACK: u64 = (1 << 20) / UNIT as u64;

/// What has to move out of the packs that are to go.
#[derive(Default)]
pub(super) struct Moving<'a> {
    pub(super) assets: Vec<(Asset, Location)>,
    /// Nodes to copy, by their first key, each with its tree and level.
    pub(super) nodes: Vec<(Tree, u8, Op<'a>)>,
}

/// Finds what an edit that writes pack `no` should move.
pub(super) fn moving(old: &Inner, no: u32) -> Moving<'_> {
    let mut moving = Moving::default();
    for slot in leaving(&old.packs, no) {
        collect(old, slot, &mut moving);
    }
    moving
}

/// The packs to be emptied.
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

/// Adds every block of the pack in `slot` that is still reached.
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
