//! Plays a rollout: selects, lets targets settle, and jumps to the next time at which anything can change.

use std::{collections::VecDeque, time::Duration};

use futures::FutureExt;
use jiff::Timestamp;
use plugin_sdk::{Health, Progress, SelectRequest, Selection, Target, TargetSelection, Until};
use prodspec_model::AssetId;

use super::{Course, Error, Schedule, Stall, Step};

/// Maximum virtual time of a preview: four weeks.
const HORIZON: Duration = Duration::from_secs(4 * 7 * 24 * 60 * 60);
/// Maximum number of selections in a preview.
pub(super) const ROUNDS: usize = 10_000;

/// Plays a rollout by `policy`, beginning with `request`, in virtual time. All targets are healthy and settle
/// `settles_after` their selection. Targets that have drifted settle at once.
///
/// The preview covers four weeks and 10,000 selections. The layers have to answer without waiting.
///
/// ```
/// use annealing_strategist::{policy::{CanaryLayer, OneDomainAtATimeLayer}, preview::preview};
/// use plugin_sdk::{service::AllTargets, testing::{NOW, select_request, target}};
/// use std::time::Duration;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(CanaryLayer::new(1).bake(Duration::from_secs(600)))
///     .layer(OneDomainAtATimeLayer::new(["us", "eu"]))
///     .service(AllTargets);
/// let targets = [target("job/eu", &["eu"]), target("job/us", &["us"])];
/// let schedule = preview(&policy, select_request(targets), Duration::from_secs(60))?;
/// assert_eq!(schedule.steps[0].selected[0].as_str(), "job/us");
/// assert_eq!(schedule.steps[1].at, NOW + Duration::from_secs(660));
/// # Ok::<(), annealing_strategist::preview::Error>(())
/// ```
///
/// # Errors
/// When the rollout would stall, does not end within these limits, or when the policy fails.
pub fn preview<P>(
    policy: &P,
    request: SelectRequest,
    settles_after: Duration,
) -> Result<Schedule, Error>
where
    P: TargetSelection + ?Sized,
{
    bounded(policy, request.into(), settles_after, ROUNDS)
}

/// Like [`preview`], with another maximum number of selections.
pub(crate) fn bounded<P>(
    policy: &P,
    course: Course,
    settles_after: Duration,
    rounds: usize,
) -> Result<Schedule, Error>
where
    P: TargetSelection + ?Sized,
{
    let horizon = after(course.request.now, HORIZON);
    let mut play = Play::new(course, settles_after);
    for round in 0..rounds {
        if play.course.request.now > horizon {
            return Err(play.too_long(round));
        }
        let selection = play.select(policy)?;
        play.take(&selection)?;
        let Some(next) = play.next(&selection) else {
            return play.end(selection);
        };
        play.go_to(next);
    }
    Err(play.too_long(rounds))
}

/// The state of a preview.
struct Play {
    course: Course,
    settles_after: Duration,
    /// The places that settle next, with their times, in order.
    under_way: VecDeque<(Timestamp, Vec<u32>)>,
    steps: Vec<Step>,
    left: usize,
}

impl Play {
    fn new(mut course: Course, settles_after: Duration) -> Self {
        let request = &mut course.request;
        let now = request.now;
        let mut under_way = VecDeque::new();
        let mut places = Vec::new();
        for (place, target) in (0..).zip(request.targets.edit()) {
            match target.progress {
                Progress::Drifted { .. } => target.progress = Progress::Updated { at: now },
                Progress::InFlight { .. } => places.push(place),
                Progress::Waiting | Progress::Updated { .. } => {}
            }
        }
        if !places.is_empty() {
            under_way.push_back((after(now, settles_after), places));
        }
        Self {
            left: request.targets.census().waiting().len(),
            course,
            settles_after,
            under_way,
            steps: Vec::new(),
        }
    }

    fn select<P: TargetSelection + ?Sized>(&mut self, policy: &P) -> Result<Selection, Error> {
        self.course.request.health = Some(Health::healthy(self.course.request.now));
        let answer = policy.select(self.course.request.clone()).now_or_never();
        answer.ok_or(Error::NotAtOnce)?.map_err(Error::Failed)
    }

    /// Puts the selected targets in flight, with those that have to move with them.
    fn take(&mut self, selection: &Selection) -> Result<(), Error> {
        let targets = &self.course.request.targets;
        let waits = |place: u32| {
            let target = targets.get(place as usize);
            target.is_some_and(Target::is_waiting)
        };
        if let Some(place) = selection.now.iter().find(|place| !waits(**place)) {
            return Err(Error::Unlawful(*place));
        }
        let mut moves = (self.course.closed)(selection.now.clone());
        moves.retain(|place| waits(*place));
        if moves.is_empty() {
            return Ok(());
        }
        let since = self.course.request.now;
        let targets = &mut self.course.request.targets;
        let mut selected = Vec::with_capacity(moves.len());
        for &place in &moves {
            selected.extend(targets.get(place as usize).map(|it| it.asset.clone()));
            targets.set_progress(place as usize, Progress::InFlight { since });
        }
        self.left -= selected.len();
        self.steps.push(Step {
            at: since,
            stage: selection.stage.clone(),
            selected,
        });
        let at_once = |place: &u32| self.course.at_once.contains(place);
        let (now, later): (Vec<u32>, Vec<u32>) = moves.into_iter().partition(at_once);
        if !now.is_empty() {
            self.under_way.push_front((since, now));
        }
        if !later.is_empty() {
            let settle = after(since, self.settles_after);
            self.under_way.push_back((settle, later));
        }
        Ok(())
    }

    /// Returns the next time at which anything can change. `None`: nothing changes any more.
    fn next(&self, selection: &Selection) -> Option<Timestamp> {
        let now = self.course.request.now;
        let times = selection.waits.iter().filter_map(|wait| match wait.until {
            Until::Time(at) => Some(at),
            Until::Healthy { since } => Some(since),
            _ => None,
        });
        let settle = self.under_way.front().map(|(at, _)| *at);
        times.filter(|at| *at > now).chain(settle).min()
    }

    fn go_to(&mut self, at: Timestamp) {
        self.course.request.now = at;
        let targets = &mut self.course.request.targets;
        while let Some((_, places)) = self.under_way.pop_front_if(|(settle, _)| *settle <= at) {
            for place in places {
                targets.set_progress(place as usize, Progress::Updated { at });
            }
        }
    }

    /// Returns the schedule or the stall when nothing can change any more.
    fn end(self, selection: Selection) -> Result<Schedule, Error> {
        let at = self.course.request.now;
        if self.left == 0 && selection.waits.is_empty() {
            return Ok(Schedule {
                steps: self.steps,
                done: at,
            });
        }
        let waiting = self
            .course
            .request
            .targets
            .iter()
            .filter(|target| target.is_waiting());
        let left: Vec<AssetId> = waiting.map(|target| target.asset.clone()).collect();
        Err(Error::Stalls(Box::new(Stall {
            at,
            waits: selection.waits,
            left,
            steps: self.steps,
        })))
    }

    fn too_long(&self, rounds: usize) -> Error {
        Error::TooLong {
            at: self.course.request.now,
            rounds,
            left: self.left,
        }
    }
}

fn after(at: Timestamp, time: Duration) -> Timestamp {
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}
