//! Following: a caller names the assets whose changes it needs, and gets those only.

use prodspec_model::AssetId;

use super::{Kernel, event::Effects};

impl Kernel {
    /// Reports changes of an asset in [`Effects::touched`] from now on. The asset need not exist. Followed several times,
    /// it has to be unfollowed as often.
    pub fn follow(&mut self, id: &AssetId) {
        let slot = self.table.find(id.as_str());
        self.followed.follow(id, slot);
    }

    /// Ends one call of [`Kernel::follow`].
    pub fn unfollow(&mut self, id: &AssetId) {
        self.followed.unfollow(id);
    }

    /// Reports the followed assets that this step touched.
    pub(super) fn report_touched(&mut self, out: &mut Effects) {
        out.touched.append(&mut self.followed.take_touched());
    }
}
