//! The steps of the demo, one module per kind. Each step begins and ends with production equal to the manifest.

mod crash;
mod limited;
mod policy;
mod promoted;
mod removal;
mod resize;
mod versions;

use testbed::judge::{
    Dice, Held, play,
    trials::{cuts, drift, kills, turnup},
};

use super::{Manifest, Session};

/// A step of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Step {
    TurnUp,
    KillFrontends,
    KillBalancer,
    ScaledByHand,
    CellKilled,
    Halved,
    Doubled,
    Cut,
    Removed,
    TooManyRemoved,
    TurnedDown,
    PlaneKilled,
    VersionTwo,
    VersionThree,
    VersionFour,
    KilledMidRollout,
    PolicyChanged,
    Promoted,
    Limited,
    Emergency,
    Client,
    Capacity,
    Down,
}

impl Step {
    /// Returns the steps: the first one, then the others in a random order, then the last ones. If `only` is not empty,
    /// the others are only the groups that contain one of these steps.
    pub(super) fn in_some_order(dice: &mut Dice, only: &[Self]) -> Vec<Self> {
        let mut free = vec![
            &[Self::KillFrontends][..],
            &[Self::KillBalancer],
            &[Self::ScaledByHand],
            &[Self::CellKilled],
            &[Self::Halved, Self::Doubled],
            &[Self::Cut],
            &[Self::Removed],
            &[Self::TooManyRemoved, Self::TurnedDown],
            &[Self::PlaneKilled],
            &[Self::VersionTwo],
            &[Self::VersionThree, Self::VersionFour],
            &[Self::KilledMidRollout],
            &[Self::PolicyChanged],
            &[Self::Promoted],
            &[Self::Limited],
            &[Self::Emergency],
        ];
        dice.shuffle(&mut free);
        // Version 2 must come before version 3.
        let at = |first: Self| free.iter().position(|steps| steps[0] == first);
        if let (Some(two), Some(three)) = (at(Self::VersionTwo), at(Self::VersionThree))
            && three < two
        {
            free.swap(two, three);
        }
        let asked = |steps: &&[Self]| only.is_empty() || steps.iter().any(|it| only.contains(it));
        free.retain(asked);
        let begin = [Self::TurnUp].into_iter();
        let end = [Self::Client, Self::Capacity, Self::Down];
        begin.chain(free.concat()).chain(end).collect()
    }

    async fn perform(self, session: &mut Session) -> Held<String> {
        match self {
            Self::TurnUp => turnup::turn_up(session).await,
            Self::KillFrontends => kills::frontends(session).await,
            Self::KillBalancer => kills::balancer(session).await,
            Self::ScaledByHand => drift::scaled_by_hand(session).await,
            Self::CellKilled => drift::cell_killed(session).await,
            Self::Halved => resize::halved(session).await,
            Self::Doubled => resize::doubled(session).await,
            Self::Cut => cuts::cut(session).await,
            Self::Removed => removal::removed(session).await,
            Self::TooManyRemoved => removal::too_many(session).await,
            Self::TurnedDown => removal::turned_down(session).await,
            Self::PlaneKilled => crash::plane_killed(session).await,
            Self::VersionTwo => versions::two(session).await,
            Self::VersionThree => versions::three(session).await,
            Self::VersionFour => versions::four(session).await,
            Self::KilledMidRollout => crash::mid_rollout(session).await,
            Self::PolicyChanged => policy::changed(session).await,
            Self::Promoted => promoted::promoted(session).await,
            Self::Limited => limited::limited(session).await,
            Self::Emergency => policy::emergency(session).await,
            Self::Client => session.judge_client().await,
            Self::Capacity => turnup::capacity(session),
            Self::Down => turnup::down(session).await,
        }
    }
}

impl play::Step<Manifest> for Step {
    fn title(self) -> &'static str {
        match self {
            Self::TurnUp => "turned up from nothing",
            Self::KillFrontends => "kill -9 of frontends",
            Self::KillBalancer => "kill -9 of a balancer",
            Self::ScaledByHand => "a job scaled by hand",
            Self::CellKilled => "a whole cell killed",
            Self::Halved => "job and balancer halved",
            Self::Doubled => "job and balancer doubled",
            Self::Cut => "the manifest cut short",
            Self::Removed => "a cluster's assets removed",
            Self::TooManyRemoved => "too many removed",
            Self::TurnedDown => "turndown with approval",
            Self::PlaneKilled => "kill -9 of the control plane",
            Self::VersionTwo => "version 2 rolls out",
            Self::VersionThree => "bad version 3 rolls back",
            Self::VersionFour => "version 4 fixes forward",
            Self::KilledMidRollout => "kill -9 during a rollout",
            Self::PolicyChanged => "a policy changed midway",
            Self::Promoted => "waves, promoted by command",
            Self::Limited => "limits on assets in flight",
            Self::Emergency => "an emergency under alert",
            Self::Client => "the client",
            Self::Capacity => "demand within capacity",
            Self::Down => "down",
        }
    }

    /// Plays the step and waits until its rollout is over.
    async fn play(self, session: &mut Session) -> Held<String> {
        let evidence = self.perform(session).await?;
        if !matches!(self, Self::Client | Self::Capacity | Self::Down) {
            session.town.rests().await?;
        }
        Ok(evidence)
    }
}
