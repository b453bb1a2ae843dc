//! Reads the stored data of rollouts, group by group.
//!
//! `memory` composes the data of one group from `records`, which reads the store, and `membership`, which finds the
//! group of an asset. The cost is the changes since the oldest head, however many groups there are.

#[cfg(test)]
mod begun_tests;
mod membership;
mod memory;
mod records;
#[cfg(test)]
mod tests;

use std::task::Poll;

use control_plane_runtime::Runtime;
use control_plane_store::record::Rewrites;
use plugin_sdk::{BoxError, GroupHead, Standing};
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

use super::Strategist;
use crate::{
    change::Stored,
    kernel::{Heads, Recovered},
    line::StoppedLine,
    train::Carried,
};
use memory::Memory;
pub(super) use records::{Over, kept};

/// One group with its stored data.
pub(super) struct Group {
    pub(super) recovered: Recovered,
    /// Whether the group's head was never stored and was derived from the pins of its assets.
    pub(super) adopted: bool,
}

impl Group {
    /// Creates a group that did not exist before.
    pub(super) fn new(policy: AssetId, latest: Incarnation, head: Option<Incarnation>) -> Self {
        let mut recovered = Recovered::nothing(policy, latest, Vec::new());
        let adopted = head.is_some();
        recovered.head = head.map(GroupHead::At);
        Self { recovered, adopted }
    }

    /// Returns the oldest incarnation at which assets with a pin of their own are held: the head of a group that
    /// never completed a rollout. `None`: no such pin.
    pub(super) fn first_pin(pins: &[(AssetId, Standing)]) -> Option<IncarnationNo> {
        let at = pins
            .iter()
            .filter_map(|(_, standing)| standing.pin.incarnation());
        at.min()
    }
}

/// All groups of the partition with their stored data.
pub(super) struct Remembered {
    pub(super) groups: Vec<Group>,
    pub(super) heads: Heads,
    /// The groups that are stages of trains of heads.
    pub(super) carried: Carried,
    pub(super) line: Option<StoppedLine>,
    /// The changes that are live.
    pub(super) changes: Vec<Stored>,
    /// The changes that have ended.
    pub(super) over: Vec<Over>,
    /// What is unknown in the records that were read.
    pub(super) rewrites: Rewrites,
}

/// Reads the stored data of all groups. Other tasks run between two groups, however many there are.
pub(super) async fn remembered<R: Runtime>(
    strategist: &Strategist<R>,
    latest: &Incarnation,
    pins: &[(AssetId, Standing)],
) -> Result<Remembered, BoxError> {
    let rewrites = Rewrites::default();
    let (memory, changes, over) = Memory::read(strategist, latest, &rewrites).await?;
    let unenforced = records::unenforced(strategist, latest, pins, &rewrites).await?;
    let all = [pins, &unenforced].concat();
    let mut pins = memory.pins_by_group(all);
    let mut groups = Vec::new();
    for policy in memory.policies() {
        let pins = pins.remove(&policy).unwrap_or_default();
        groups.push(memory.group(strategist, pins, policy).await?);
        others_run().await;
    }
    let (heads, carried) = (memory.heads(), memory.carried());
    let line = records::line(strategist, &rewrites).await?;
    Ok(Remembered {
        groups,
        heads,
        carried,
        line,
        changes,
        over,
        rewrites,
    })
}

/// Lets other tasks of the thread run.
async fn others_run() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
