//! The policy group: its policy, the newest incarnation, and the heads that decide which assets it governs (R17).

use jiff::Timestamp;
use plugin_sdk::{Cause, GroupHead, Pin};
use prodspec_model::{
    Asset, AssetId, Digest, Incarnation, IncarnationNo,
    rollout::{RolloutPolicy, Update},
};

use crate::group::{Heads, governs, headed_by, members, policy_of};
use crate::line::StoppedLine;

/// One policy group, as of the newest incarnation.
#[derive(Debug)]
pub(in crate::kernel) struct Group {
    policy: AssetId,
    /// The newest incarnation that the group has taken in.
    latest: Incarnation,
    /// The newest incarnation. It has the policy, and says which assets have left the group. The group of a stage of a train may
    /// not have taken it in.
    sealed: Incarnation,
    /// `None`: no rollout has completed.
    head: Option<GroupHead<Incarnation>>,
    /// The policy asset of the newest incarnation that had it. `None`: none is known.
    policy_asset: Option<Asset>,
    /// The heads of all groups, including this one's as the other groups see it.
    heads: Heads,
    /// Set while the line is stopped.
    line: Option<StoppedLine>,
}

impl Group {
    pub(in crate::kernel) fn new(
        policy: AssetId,
        latest: Incarnation,
        head: Option<GroupHead<Incarnation>>,
        heads: Heads,
    ) -> Self {
        let there = latest.asset(&policy);
        let there = there.or_else(|| head.as_ref()?.incarnation()?.asset(&policy));
        Self {
            policy,
            sealed: latest.clone(),
            latest,
            head,
            policy_asset: there,
            heads,
            line: None,
        }
    }

    /// Notes that the line is stopped, or that it goes on.
    pub(in crate::kernel) fn set_line(&mut self, line: Option<StoppedLine>) {
        self.line = line;
    }

    /// Returns the stop of the line if it holds for the rollouts of this group at the time `at`.
    pub(in crate::kernel) fn stopped_line(&self, at: Timestamp) -> Option<&StoppedLine> {
        let line = self.line.as_ref();
        line.filter(|line| line.stops(&self.policy, at))
    }

    /// Returns the policy asset that names the group.
    pub(in crate::kernel) fn policy(&self) -> &AssetId {
        &self.policy
    }

    /// Returns the newest incarnation that the group has taken in.
    pub(in crate::kernel) fn latest(&self) -> &Incarnation {
        &self.latest
    }

    /// Returns the newest incarnation, whether the group has taken it in or not.
    pub(in crate::kernel) fn sealed(&self) -> &Incarnation {
        &self.sealed
    }

    /// Returns the incarnation that the group's assets have by default: the one whose rollout completed last, or the newest
    /// if the group follows that. `None`: no rollout has completed.
    pub(in crate::kernel) fn head(&self) -> Option<&Incarnation> {
        match self.head.as_ref()? {
            GroupHead::At(head) => Some(head),
            GroupHead::Latest => Some(&self.latest),
            GroupHead::Unknown => None,
        }
    }

    /// Returns the head as it is stored.
    pub(in crate::kernel) fn stored_head(&self) -> Option<&GroupHead<Incarnation>> {
        self.head.as_ref()
    }

    /// Whether the group follows the newest incarnation.
    pub(in crate::kernel) fn follows_latest(&self) -> bool {
        matches!(self.head, Some(GroupHead::Latest))
    }

    /// Whether a newer program version has set a head that this one does not know.
    pub(in crate::kernel) fn is_unknown(&self) -> bool {
        matches!(self.head, Some(GroupHead::Unknown))
    }

    /// Returns how the policy says that assets are updated. `None`: it cannot be read now.
    pub(in crate::kernel) fn update(&self) -> Option<Update> {
        Some(self.rollout_policy().ok()?.update)
    }

    /// Takes in a newer incarnation. Returns whether it changes the policy asset.
    pub(in crate::kernel) fn take(&mut self, latest: Incarnation) -> bool {
        self.latest = latest.clone();
        self.sealed.no() <= latest.no() && self.see(latest)
    }

    /// Notes a newer incarnation, without taking it in. Returns whether it changes the policy asset.
    pub(in crate::kernel) fn see(&mut self, sealed: Incarnation) -> bool {
        let policy = |of: &Incarnation| of.asset(&self.policy).map(|asset| asset.digest());
        let changes = policy(&self.sealed) != policy(&sealed);
        self.sealed = sealed;
        if let Some(there) = self.sealed.asset(&self.policy) {
            self.policy_asset = Some(there);
        }
        changes
    }

    /// Adds assets to the newest incarnation, and to the head if that is an incarnation of its own.
    pub(in crate::kernel) fn widen(
        &mut self,
        before: impl Fn(&Incarnation) -> Incarnation,
        after: impl Fn(&Incarnation) -> Incarnation,
    ) {
        if let Some(GroupHead::At(head)) = &self.head {
            self.head = Some(GroupHead::At(before(head)));
        }
        self.latest = after(&self.latest);
        self.sealed = self.latest.clone();
    }

    /// Moves the head of this group.
    pub(in crate::kernel) fn move_head(&mut self, head: GroupHead<Incarnation>) {
        self.head = Some(head);
    }

    /// Returns the heads of all groups.
    pub(in crate::kernel) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Takes in the heads of all groups.
    pub(in crate::kernel) fn hear(&mut self, heads: Heads) {
        self.heads = heads;
    }

    /// R17: whether the group governs an asset as of `newest`, even if another group's rollout still holds the asset.
    pub(in crate::kernel) fn names(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        governs(&self.policy, self.head(), &self.heads, newest, asset) && !self.has_left(asset)
    }

    /// Whether an asset names another group in an incarnation that this one has not taken in.
    fn has_left(&self, asset: &AssetId) -> bool {
        let named = || self.sealed.asset(asset).as_ref().and_then(policy_of);
        self.sealed.no() != self.latest.no() && named().is_some_and(|it| it != self.policy)
    }

    /// Returns the group that an asset names in the newest incarnation, or else another group at whose head it names
    /// that group.
    pub(in crate::kernel) fn named_by(&self, asset: &AssetId) -> Option<AssetId> {
        let newest = self.sealed.asset(asset);
        let named = newest.as_ref().and_then(policy_of);
        named.or_else(|| headed_by(&self.heads, &self.policy, asset))
    }

    /// Returns the head of the group of `policy`. `None`: it has none.
    pub(in crate::kernel) fn head_of(&self, policy: &AssetId) -> Option<&Incarnation> {
        match self.heads.get(policy)? {
            GroupHead::At(head) => Some(head),
            GroupHead::Latest => Some(&self.latest),
            GroupHead::Unknown => None,
        }
    }

    /// Returns the newest incarnation or the head, if `no` is the number of either.
    pub(in crate::kernel) fn at(&self, no: IncarnationNo) -> Option<&Incarnation> {
        let all = [Some(&self.latest), self.head()];
        all.into_iter().flatten().find(|of| of.no() == no)
    }

    /// Returns the content of an asset at the head.
    pub(in crate::kernel) fn content_at_head(&self, asset: &AssetId) -> Option<Digest> {
        let there = self.head()?.asset(asset);
        there.map(|asset| asset.digest())
    }

    /// Returns the pin to where an asset's default puts it now.
    pub(in crate::kernel) fn default_pin(&self, asset: &AssetId, cause: Cause) -> Pin {
        match self.head() {
            Some(head) if head.asset(asset).is_some() => Pin::At(head.no(), cause),
            // The asset is new. It is left alone and listed, never removed.
            _ => Pin::NotYet,
        }
    }

    /// R17: the policy asset as it was before an edit removed it together with every reference to it. That edit is
    /// rolled out by it, and ends the group. `None`: the newest incarnation has the policy asset or refers to it.
    pub(in crate::kernel) fn removed_policy(&self) -> Option<&Asset> {
        let gone = self.sealed.asset(&self.policy).is_none();
        let unnamed = || members(&self.policy, &self.sealed).is_empty();
        self.policy_asset.as_ref().filter(|_| gone && unnamed())
    }

    /// Takes in the policy asset that the last owner went by, unless the newest incarnation has it.
    pub(in crate::kernel) fn recall_policy(&mut self, asset: Asset) {
        if self.sealed.asset(&self.policy).is_none() && asset.id() == self.policy {
            self.policy_asset = Some(asset);
        }
    }

    /// Returns the policy at the newest incarnation, or the [removed one](Self::removed_policy). It is read at every use.
    pub(in crate::kernel) fn rollout_policy(&self) -> Result<RolloutPolicy, String> {
        let there = self.sealed.asset(&self.policy);
        let Some(asset) = there.or_else(|| self.removed_policy().cloned()) else {
            return Err(format!(
                "{} has no policy asset `{}`; restore it, or let its assets refer to another",
                self.sealed.id(),
                self.policy
            ));
        };
        asset
            .payload()
            .map_err(|error| format!("the policy `{}` cannot be read: {error}", self.policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::rig::{P, id, of_group, policy_asset, seal, thing};

    #[test]
    fn r17_policy_is_read_at_the_newest_incarnation() {
        let policy = RolloutPolicy::default();
        let first = seal(None, vec![policy_asset(&policy), thing("a", 1)], &[]);
        let mut group = Group::new(id(P), first.clone(), None, Heads::default());
        assert!(group.rollout_policy().is_ok());
        let second = seal(Some(&first), vec![thing("a", 2)], &[]);
        assert!(!group.take(second.clone()), "the policy is the same");
        assert!(group.take(seal(Some(&second), vec![thing("a", 3)], &[P])));
        let missing = group.rollout_policy().unwrap_err();
        assert!(missing.contains("restore it"), "{missing}");
    }

    #[test]
    fn r17_asset_without_a_policy_belongs_to_the_group_whose_head_names_it() {
        let first = seal(None, vec![thing("a", 1)], &[]);
        let bare = of_group(None, "a", 1).build().unwrap();
        let second = seal(Some(&first), vec![bare], &[]);
        let mut group = Group::new(id(P), second.clone(), None, Heads::default());
        assert!(!group.names(&second, &id("a")));
        group.move_head(GroupHead::At(first.clone()));
        assert!(group.names(&second, &id("a")));
        assert_eq!(group.named_by(&id("a")), None, "no other group names it");
        let head = group.at(first.no()).map(Incarnation::no);
        assert_eq!(head, Some(first.no()));
        let goes = group.default_pin(&id("a"), Cause::Intent);
        assert_eq!(goes, Pin::At(first.no(), Cause::Intent));
        assert_eq!(group.default_pin(&id("b"), Cause::Intent), Pin::NotYet);
    }
}
