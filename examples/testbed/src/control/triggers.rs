//! Words for schedules and watches, which are assets: the same commands as for assets that are enforced.

use control_plane::{By, Handle, model::AssetId, workflow::ScheduleWord};

use super::answer::Refused;

/// What starts operations by itself.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trigger {
    Schedule,
    Watch,
}

impl Trigger {
    /// Returns what the asset starts operations by. None: it starts none, or this process does not own the partition.
    pub(super) async fn of(handle: &Handle, asset: &AssetId) -> Option<Self> {
        let schedules = handle.schedules().await.ok()?;
        if schedules.iter().any(|it| it.asset == *asset) {
            return Some(Self::Schedule);
        }
        let watches = handle.watches().await.ok()?;
        let watches = watches.iter().any(|it| it.asset == *asset);
        watches.then_some(Self::Watch)
    }

    /// Gives it a word.
    pub(super) async fn told(
        self,
        handle: &Handle,
        asset: &AssetId,
        word: ScheduleWord,
        by: By,
    ) -> Result<(), Refused> {
        match self {
            Self::Schedule => handle.say_to_schedule(asset, word, by).await?,
            Self::Watch => handle.say_to_watch(asset, word, by).await?,
        }
        Ok(())
    }
}
