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
    /// Returns what the asset starts operations by. None: it starts none.
    pub(super) async fn of(handle: &Handle, asset: &AssetId) -> Result<Option<Self>, Refused> {
        let schedules = handle.schedules().await?;
        if schedules.iter().any(|it| it.asset == *asset) {
            return Ok(Some(Self::Schedule));
        }
        let watches = handle.watches().await?;
        let watches = watches.iter().any(|it| it.asset == *asset);
        Ok(watches.then_some(Self::Watch))
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
