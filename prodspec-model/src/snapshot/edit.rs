//! One edit of a snapshot: finds the real changes of assets and references, copies blocks forward, rewrites both trees.

use std::{borrow::Cow, cmp::Ordering};

use super::{
    Inner,
    forward::{self, Moving},
    node::Tree,
    pack::Location,
    rewrite::{Op, Rewrite, To},
    write::Writer,
};
use crate::{
    asset::Asset,
    id::{AssetId, IncarnationNo},
};

/// The state of an edit before its trees are rewritten.
struct Edit<'a, 'k> {
    old: &'a Inner,
    writer: Writer<'a>,
    assets: Vec<Op<'k>>,
    references: Vec<Op<'k>>,
    len: usize,
}

/// The snapshot after an edit. `None`: nothing changes.
pub(super) fn edit(
    old: &Inner,
    no: IncarnationNo,
    put: Vec<Asset>,
    removed: &[AssetId],
) -> Option<Inner> {
    let put = last_of_each(put);
    let bytes: usize = put
        .iter()
        .map(|asset| asset.block().bytes().len() + 24)
        .sum();
    // An edit of a draft continues the draft's pack. Pack numbers never decrease.
    let newest = old.packs.0.last().map_or(0, |slot| slot.no);
    let no = no.0.max(newest);
    let mut edit = Edit {
        old,
        writer: Writer::new(&old.packs, no, bytes + 4096),
        assets: Vec::with_capacity(put.len() + removed.len()),
        references: Vec::new(),
        len: old.len,
    };
    for asset in &put {
        edit.put(asset);
    }
    let mut removed: Vec<&AssetId> = removed.iter().collect();
    removed.sort();
    removed.dedup();
    for id in removed {
        if put
            .binary_search_by(|asset| asset.id_str().cmp(id.as_str()))
            .is_err()
        {
            edit.remove(id);
        }
    }
    if edit.assets.is_empty() {
        return None;
    }
    sort(&mut edit.assets);
    Some(edit.finish(no))
}

impl<'a, 'k> Edit<'a, 'k> {
    fn put(&mut self, asset: &'k Asset) {
        let key = asset.id_str().as_bytes();
        let to = match self.old.located(asset.id_str()) {
            Some((_, before)) if before == *asset => return,
            Some((at, before)) => {
                self.writer.bury(at);
                self.refer(key, &before.references(), &asset.references());
                To::Move(self.writer.asset(asset))
            }
            None => {
                self.len += 1;
                self.refer(key, &[], &asset.references());
                To::Put(self.writer.asset(asset))
            }
        };
        let key = Cow::Borrowed(key);
        self.assets.push(Op { key, to });
    }

    fn remove(&mut self, id: &'k AssetId) {
        let key = id.as_str().as_bytes();
        let Some((at, before)) = self.old.located(id.as_str()) else {
            return;
        };
        self.len -= 1;
        self.writer.bury(at);
        self.refer(key, &before.references(), &[]);
        let key = Cow::Borrowed(key);
        self.assets.push(Op {
            key,
            to: To::Remove,
        });
    }

    /// Replaces the references of the asset `source`. Both lists are sorted.
    fn refer(&mut self, source: &[u8], before: &[AssetId], after: &[AssetId]) {
        let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (Some(old), Some(new)) => old.cmp(new),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            let old = before.next_if(|_| order.is_le());
            let new = after.next_if(|_| order.is_ge());
            let (target, to) = match (old, new) {
                (Some(old), None) => (old, To::Remove),
                (None, Some(new)) => (new, To::Put(Location::default())),
                _ => continue,
            };
            let mut key = reference_prefix(target.as_str());
            key.extend_from_slice(source);
            let key = Cow::Owned(key);
            self.references.push(Op { key, to });
        }
    }

    /// Copies blocks forward out of old packs, and rewrites both trees.
    fn finish(mut self, no: u32) -> Inner {
        let Moving { assets, nodes } = forward::moving(self.old, no);
        let changed = self.assets.len();
        let bytes = assets.iter().map(|(asset, _)| asset.block().bytes().len());
        self.writer
            .reserve(bytes.sum::<usize>() + 512 * nodes.len());
        for (asset, at) in &assets {
            let key = asset.id_str().as_bytes();
            let edited = self.assets[..changed].binary_search_by(|op| (*op.key).cmp(key));
            if edited.is_err() {
                self.writer.bury(*at);
                let to = To::Move(self.writer.asset(asset));
                let key = Cow::Owned(key.to_vec());
                self.assets.push(Op { key, to });
            }
        }
        if self.assets.len() > changed {
            sort(&mut self.assets);
        }
        sort(&mut self.references);
        let mut rewrite = |tree, root, ops| {
            let touches = nodes.iter().filter(|(of, _, _)| *of == tree);
            let touches: Vec<_> = touches.map(|(_, level, op)| (*level, op.clone())).collect();
            let (packs, writer) = (&self.old.packs, &mut self.writer);
            Rewrite {
                tree,
                packs,
                writer,
            }
            .run(root, ops, &touches)
        };
        let assets = rewrite(Tree::Assets, self.old.assets, self.assets);
        let references = rewrite(Tree::References, self.old.references, self.references);
        Inner {
            assets,
            references,
            len: self.len,
            packs: self.writer.finish(),
            newest: Some(no),
        }
    }
}

/// The common prefix of all keys of the reference tree that name `target`. Ids contain no zero byte.
pub(super) fn reference_prefix(target: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(target.len() + 32);
    key.extend_from_slice(target.as_bytes());
    key.push(0);
    key
}

fn sort(ops: &mut [Op<'_>]) {
    ops.sort_by(|a, b| a.key.cmp(&b.key));
}

/// The assets sorted by id. Of several assets with the same id, only the last is kept.
fn last_of_each(put: Vec<Asset>) -> Vec<Asset> {
    // The id of each asset is read once only: the assets are usually not in the processor's cache.
    let mut order: Vec<(&str, usize)> = put.iter().map(Asset::id_str).zip(0..).collect();
    order.sort_unstable();
    let mut put: Vec<Asset> = order.iter().map(|&(_, nth)| put[nth].clone()).collect();
    put.dedup_by(|later, first| {
        let same = later.id_str() == first.id_str();
        if same {
            std::mem::swap(later, first);
        }
        same
    });
    put
}
