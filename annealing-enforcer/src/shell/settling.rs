//! Callers that wait until assets are settled, by asset: a change of an asset looks at the callers that wait for it, and
//! at no other.

use std::collections::BTreeMap;

use futures::channel::oneshot;
use prodspec_model::{AssetId, IncarnationNo};

use super::input::Settle;
use crate::kernel::Kernel;

/// Number of waiting callers below which those that have gone are not looked for.
const FEW: usize = 64;

/// Gets `true` once settled, and `false` if the asset is not known.
type Reply = oneshot::Sender<bool>;

/// The callers that wait.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// Callers that wait for all assets, by incarnation.
    all: BTreeMap<IncarnationNo, Vec<Reply>>,
    /// Callers that wait for one asset at an incarnation that enforcement has not taken in yet.
    later: BTreeMap<IncarnationNo, Vec<(AssetId, Reply)>>,
    /// Callers that wait for one asset, which the kernel follows for them.
    assets: BTreeMap<AssetId, Vec<(IncarnationNo, Reply)>>,
    /// Number of callers, those included that have gone since the last look at all of them.
    many: usize,
    /// Number of callers at which those that have gone are looked for next.
    sweep_at: usize,
}

impl Settling {
    /// Adds a caller, or answers it at once.
    pub(super) fn wait(&mut self, kernel: &mut Kernel, what: Settle, reply: Reply) {
        if self.many >= self.sweep_at.max(FEW) {
            self.sweep(kernel);
        }
        self.many += 1;
        match what {
            Settle::All(no) => {
                self.all.entry(no).or_default().push(reply);
                self.answer_all(kernel);
            }
            Settle::Asset(asset, no) => self.wait_for(kernel, asset, no, reply),
        }
    }

    /// Answers the callers that wait for `touched` assets, for a new incarnation, or for all assets.
    pub(super) fn changed(
        &mut self,
        kernel: &mut Kernel,
        touched: impl IntoIterator<Item = AssetId>,
    ) {
        for asset in touched {
            if let Some(waiting) = self.assets.remove(&asset) {
                self.again(kernel, asset, waiting);
            }
        }
        let newest = kernel.latest().no();
        while let Some(due) = self.later.first_entry().filter(|due| *due.key() <= newest) {
            let no = *due.key();
            for (asset, reply) in due.remove() {
                self.wait_for(kernel, asset, no, reply);
            }
        }
        self.answer_all(kernel);
    }

    fn wait_for(&mut self, kernel: &mut Kernel, asset: AssetId, no: IncarnationNo, reply: Reply) {
        if kernel.latest().no() < no {
            self.later.entry(no).or_default().push((asset, reply));
            return;
        }
        match kernel.is_settled_at(&asset, no) {
            Some(false) => {
                let waiting = self.assets.entry(asset.clone()).or_default();
                if waiting.is_empty() {
                    kernel.follow(&asset);
                }
                waiting.push((no, reply));
            }
            known => self.answer(reply, known.is_some()),
        }
    }

    /// Looks at the callers that wait for one asset, which has changed.
    fn again(
        &mut self,
        kernel: &mut Kernel,
        asset: AssetId,
        mut waiting: Vec<(IncarnationNo, Reply)>,
    ) {
        let before = std::mem::take(&mut waiting);
        for (no, reply) in before {
            match kernel.is_settled_at(&asset, no) {
                Some(false) => waiting.push((no, reply)),
                known => self.answer(reply, known.is_some()),
            }
        }
        if waiting.is_empty() {
            kernel.unfollow(&asset);
        } else {
            self.assets.insert(asset, waiting);
        }
    }

    fn answer_all(&mut self, kernel: &Kernel) {
        let newest = kernel.latest().no();
        if self.all.is_empty() || !kernel.all_settled_at(newest) {
            return;
        }
        let later = self.all.split_off(&newest.next());
        for reply in std::mem::replace(&mut self.all, later)
            .into_values()
            .flatten()
        {
            self.answer(reply, true);
        }
    }

    fn answer(&mut self, reply: Reply, is_known: bool) {
        self.many -= 1;
        // The caller may have gone.
        let _ = reply.send(is_known);
    }

    /// Removes the callers that have gone. Done whenever twice as many wait as after the last time.
    fn sweep(&mut self, kernel: &mut Kernel) {
        self.all.retain(|_, waiting| {
            waiting.retain(|reply| !reply.is_canceled());
            !waiting.is_empty()
        });
        self.later.retain(|_, waiting| {
            waiting.retain(|(_, reply)| !reply.is_canceled());
            !waiting.is_empty()
        });
        self.assets.retain(|asset, waiting| {
            waiting.retain(|(_, reply)| !reply.is_canceled());
            if waiting.is_empty() {
                kernel.unfollow(asset);
            }
            !waiting.is_empty()
        });
        let assets = self.assets.values().map(Vec::len).sum::<usize>();
        let later = self.later.values().map(Vec::len).sum::<usize>();
        self.many = assets + later + self.all.values().map(Vec::len).sum::<usize>();
        self.sweep_at = 2 * self.many;
    }
}
