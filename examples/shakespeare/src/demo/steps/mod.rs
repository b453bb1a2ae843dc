//! The steps of the demo, one module per kind. Each begins and ends with production as the manifest says.

mod crash;
mod cuts;
mod drift;
mod kills;
mod removal;
mod resize;
mod turnup;

use super::{Held, Session, dice::Dice};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    Client,
    Capacity,
    Down,
}

impl Step {
    /// The beginning, then what may come in any order, in some order, then the end.
    pub(super) fn in_some_order(dice: &mut Dice) -> Vec<Self> {
        let mut free = [
            &[Self::KillFrontends][..],
            &[Self::KillBalancer],
            &[Self::ScaledByHand],
            &[Self::CellKilled],
            &[Self::Halved, Self::Doubled],
            &[Self::Cut],
            &[Self::Removed],
            &[Self::TooManyRemoved, Self::TurnedDown],
            &[Self::PlaneKilled],
        ];
        dice.shuffle(&mut free);
        let begin = [Self::TurnUp].into_iter();
        let end = [Self::Client, Self::Capacity, Self::Down];
        begin.chain(free.concat()).chain(end).collect()
    }

    /// What it is called in the table.
    pub(super) fn title(self) -> &'static str {
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
            Self::Client => "the client",
            Self::Capacity => "demand within capacity",
            Self::Down => "down",
        }
    }

    /// Plays it. Says what was looked at, or what does not hold.
    pub(super) async fn play(self, session: &mut Session) -> Held<String> {
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
            Self::Client => session.judge_client().await,
            Self::Capacity => turnup::capacity(session),
            Self::Down => turnup::down(session).await,
        }
    }
}
