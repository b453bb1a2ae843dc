//! The steps of the demo, one module per kind. Each step begins and ends with production equal to the manifest.

mod crash;
mod held;
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

use super::{
    BAD, Manifest, Session,
    edits::{beside, joined, train},
    workflows::{edited, fresh, noticed, poison, seasons, slots},
};

/// A part of the demo, which can be played alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    /// Edits, crashes, drift, removals and rollouts.
    Rollouts,
    /// Rollouts that edit the manifest.
    Edits,
    /// Workflows, operations and schedules.
    Workflows,
}

impl Part {
    /// Returns the steps that can be played in any order, in groups of steps that belong together.
    fn groups(self) -> &'static [&'static [Step]] {
        use Step as S;
        match self {
            Self::Rollouts => &[
                &[S::KillFrontends],
                &[S::KillBalancer],
                &[S::ScaledByHand],
                &[S::CellKilled],
                &[S::Halved, S::Doubled],
                &[S::Cut],
                &[S::Removed],
                &[S::TooManyRemoved, S::TurnedDown],
                &[S::PlaneKilled],
                &[S::VersionTwo],
                &[S::VersionThree, S::VersionFour],
                &[S::KilledMidRollout],
                &[S::PolicyChanged],
                &[S::Promoted],
                &[S::Limited],
                &[S::Frozen],
                &[S::UnderPeak],
                &[S::Emergency],
            ],
            Self::Edits => &[&[S::Beside, S::Joined, S::Train]],
            Self::Workflows => &[
                &[S::Printed],
                &[S::CleanedUp],
                &[S::Cancelled],
                &[S::Restarted],
                &[S::Resized],
                &[S::HandsOff],
                &[S::Poison],
                &[S::Fresh],
                &[S::Noticed],
                &[S::OnTime],
            ],
        }
    }
}

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
    Frozen,
    UnderPeak,
    Emergency,
    Beside,
    Joined,
    Train,
    Printed,
    CleanedUp,
    Cancelled,
    Restarted,
    Resized,
    HandsOff,
    Poison,
    Fresh,
    Noticed,
    OnTime,
    Client,
    Capacity,
    Down,
}

impl Step {
    /// Returns the steps: the first one, then the others in a random order, then the last ones. Without a `part`, those
    /// of all parts. If `only` is not empty, the others are only the groups that contain one of these steps.
    pub(super) fn in_some_order(dice: &mut Dice, part: Option<Part>, only: &[Self]) -> Vec<Self> {
        let parts = [Part::Rollouts, Part::Edits, Part::Workflows].into_iter();
        let parts = parts.filter(|it| part.is_none_or(|part| part == *it));
        let mut free: Vec<&[Self]> = parts.flat_map(Part::groups).copied().collect();
        dice.shuffle(&mut free);
        let at = |free: &[&[Self]], first| free.iter().position(|steps| steps[0] == first);
        // Version 2 must come before version 3.
        if let (Some(two), Some(three)) =
            (at(&free, Self::VersionTwo), at(&free, Self::VersionThree))
            && three < two
        {
            free.swap(two, three);
        }
        // The schedules run beside all other steps.
        if let Some(slots) = at(&free, Self::OnTime) {
            let slots = free.remove(slots);
            free.push(slots);
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
            Self::Frozen => held::frozen(session).await,
            Self::UnderPeak => held::under_peak(session).await,
            Self::Emergency => policy::emergency(session).await,
            Self::Beside => beside::beside(session).await,
            Self::Joined => joined::joined(session).await,
            Self::Train => train::train(session).await,
            Self::Printed => seasons::printed(session).await,
            Self::CleanedUp => seasons::cleaned_up(session).await,
            Self::Cancelled => seasons::cancelled(session).await,
            Self::Restarted => seasons::restarted(session).await,
            Self::Resized => edited::resized(session).await,
            Self::HandsOff => edited::hands_off(session).await,
            Self::Poison => poison::parked(session).await,
            Self::Fresh => fresh::index(session).await,
            Self::Noticed => noticed::once(session).await,
            Self::OnTime => slots::on_time(session).await,
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
            Self::Frozen => "a freeze that is an edit",
            Self::UnderPeak => "capacity kept at the peak",
            Self::Emergency => "an emergency under alert",
            Self::Beside => "a flag beside a bad version",
            Self::Joined => "a cluster comes midway",
            Self::Train => "a train of three versions",
            Self::Printed => "a season printed",
            Self::CleanedUp => "a failed season cleaned up",
            Self::Cancelled => "a season cancelled",
            Self::Restarted => "two branches restarted",
            Self::Resized => "resized by an operation",
            Self::HandsOff => "hands off a person's edit",
            Self::Poison => "an input that aborts",
            Self::Fresh => "an index that stays fresh",
            Self::Noticed => "one notice when out of sync",
            Self::OnTime => "schedules on time",
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
