//! Push calls: messages to production that take time, outlive their sender, and may arrive late.

use std::time::Duration;

use futures::channel::oneshot;
use plugin_sdk::{PushRequest, Pushed, plugin};

use super::{Fate, Network};
use crate::{
    faults::Fault,
    intent::{Bad, Kind, number},
    production::{Applying, Content, LONGEST, Push},
    world::judge::Call,
    world::{State, World},
};

type Answer = Result<Pushed, plugin::Error>;

/// The course of a push, drawn when it is sent.
struct Course {
    push: Push,
    kind: Kind,
    travel: Duration,
    until_flip: Duration,
    until_done: Duration,
    answered: bool,
    unhealthy: bool,
    back: Option<Duration>,
}

impl Network {
    /// Carries out a push or turndown call and reports its answer to the judge.
    pub(super) async fn change(&self, request: PushRequest, turndown: bool) -> Answer {
        let at = number(request.asset_id().as_str());
        let answer = self.carry(request, turndown).await;
        self.world.state().answered(self.node, at, &answer);
        answer
    }

    async fn carry(&self, request: PushRequest, turndown: bool) -> Answer {
        let asset = request.asset()?;
        let at = number(asset.id_str());
        let what = if request.continuation {
            "follow up"
        } else {
            "push"
        };
        self.world
            .note(what, Some(at), [request.token.0, u64::from(request.run.n)]);
        let call = Call {
            node: self.node.0,
            asset: &asset,
            incarnation: request.incarnation().no.0,
            token: request.token.0,
            change: Some(request.change),
            cause: Some(request.cause),
            continuation: request.continuation,
            turndown,
        };
        let (course, fate) = self.admit(&call, request.run.n);
        self.world.verdict();
        if let Fate::Fails(error) = fate {
            // An error of a known class means that the push did nothing. A follow-up cannot know that.
            return Err(match request.continuation {
                true => plugin::Error::unknown(error.to_string()),
                false => error,
            });
        }
        let kind = course.kind;
        let goes_on = request.continuation && kind == Kind::Gradual;
        if let Some(answer) = goes_on
            .then(|| self.world.state().progress(at, &course))
            .flatten()
        {
            return answer;
        }
        self.pass().await;
        let (reply, answer) = oneshot::channel();
        self.world.state().production.resources[at]
            .sent
            .push(course.push);
        let world = self.world.clone();
        self.world.spawn(travel(world, at, course, reply));
        self.endanger().await;
        self.suffer(fate).await?;
        let Ok(answer) = answer.await else {
            return futures::future::pending().await;
        };
        self.pass().await;
        answer
    }

    /// Judges a call on its arrival at the provider. Returns the course and the fate of its push.
    fn admit(&self, call: &Call<'_>, run: u32) -> (Course, Fate) {
        let at = number(call.asset.id_str());
        let mut state = self.world.state();
        state.judge_intent(call);
        state.judge_push(call);
        state.judge_lease(self.node, at);
        let to = (!call.turndown).then(|| state.production.content(call.asset));
        let (course, fate) = state.send(at, call.token, run, to);
        if matches!(fate, Fate::Panics) {
            state.judge.stops.lost(self.node, at);
        }
        (course, fate)
    }
}

impl State {
    /// Draws the course of a push. An advisory provider always completes it within half of the call's deadline.
    fn send(&mut self, at: usize, token: u64, n: u32, to: Option<Content>) -> (Course, Fate) {
        let kind = self.production.resources[at].kind;
        let mut travel = self.latency().unwrap_or_default();
        if self.strikes(Fault::LateMessage) {
            let most = Duration::from_secs(if kind == Kind::Advisory { 5 } else { 150 });
            travel = self.random.between(Duration::from_secs(1), most);
        }
        let usual = Duration::from_millis(if kind == Kind::Gradual { 4000 } else { 80 });
        let until_done = self.random.delay(usual, LONGEST);
        travel = self.scenario.travel.unwrap_or(travel);
        let hangs = self.strikes(Fault::HangPush);
        let fate = self.fate();
        if !matches!(fate, Fate::Fine) {
            self.hindered(at, Duration::ZERO);
        }
        let number = self.random.bits();
        let push = Push {
            number,
            token,
            n,
            started: self.now,
            to,
        };
        let course = Course {
            push,
            kind,
            travel,
            until_flip: self.random.between(Duration::ZERO, until_done),
            until_done,
            answered: !hangs,
            unhealthy: self.strikes(Fault::Unhealthy) || is_sick(to),
            back: self.latency(),
        };
        (course, fate)
    }

    /// A gradual provider's answer to a follow-up; `None` if it does not know the push.
    fn progress(&mut self, at: usize, course: &Course) -> Option<Answer> {
        let resource = &mut self.production.resources[at];
        if resource.hear(course.push.token, course.push.n).is_err() {
            return Some(Err(plugin::Error::fenced("a newer call was received")));
        }
        if resource.applying.is_some() {
            return Some(in_progress());
        }
        let there = resource.content == course.push.to;
        there.then(|| match is_sick(course.push.to) {
            true => Err(unhealthy()),
            false => Ok(Pushed::Done),
        })
    }

    /// A push arrives at production. Returns whether production accepts it.
    fn arrive(&mut self, at: usize, push: Push) -> bool {
        let now = self.now;
        let resource = &mut self.production.resources[at];
        resource.sent.retain(|sent| sent.number != push.number);
        if resource.hear(push.token, push.n).is_err() {
            return false;
        }
        let before = resource.accepted.max(push.token);
        let older = std::mem::replace(&mut resource.accepted, before) > push.token;
        resource.applying = Some(Applying { push });
        self.production.last_push = now;
        if older {
            let token = push.token;
            self.violated(
                "S5",
                format!("asset/{at:02} takes a push of owner {token}, after one of {before}"),
            );
        }
        true
    }

    fn is_under_way(&self, at: usize, push: Push) -> bool {
        let applying = self.production.resources[at].applying;
        applying.is_some_and(|it| it.push.number == push.number)
    }
}

fn is_sick(content: Option<Content>) -> bool {
    content.is_some_and(|content| content.bad == Bad::Unhealthy)
}

fn unhealthy() -> plugin::Error {
    plugin::Error::unhealthy("the health check fails")
}

fn in_progress() -> Answer {
    Ok(Pushed::InProgress {
        check_again_in: Duration::from_millis(700),
    })
}

/// Carries one push from its sender to its end in production.
async fn travel(world: World, at: usize, course: Course, reply: oneshot::Sender<Answer>) {
    let push = course.push;
    if course.travel > Duration::ZERO {
        world.sleep(course.travel).await;
    }
    let let_in = world.state().arrive(at, push);
    world.note("arrived", Some(at), [push.token, u64::from(let_in)]);
    world.verdict();
    if !let_in {
        let refused = plugin::Error::fenced("a newer call was received");
        return answer(&world, &course, reply, Err(refused)).await;
    }
    let (until_flip, until_done) = (course.until_flip, course.until_done);
    let applied = apply(world.clone(), at, push, until_flip, until_done);
    if course.kind == Kind::Gradual {
        world.spawn(applied);
        return answer(&world, &course, reply, in_progress()).await;
    }
    applied.await;
    let outcome = if course.unhealthy {
        Err(unhealthy())
    } else {
        Ok(Pushed::Done)
    };
    answer(&world, &course, reply, outcome).await;
}

/// Applies a push: the change takes effect at one instant, and the push ends at a later one.
async fn apply(world: World, at: usize, push: Push, until_flip: Duration, until_done: Duration) {
    world.sleep(until_flip).await;
    {
        let mut state = world.state();
        if state.is_under_way(at, push) {
            state.flip(at, push);
            state.production.took_effect.push((at, push.to));
            state.production.removed += u64::from(push.to.is_none());
        }
    }
    world.note("took effect", Some(at), [push.token, push.number]);
    world.verdict();
    world.sleep(until_done.saturating_sub(until_flip)).await;
    let mut state = world.state();
    if state.is_under_way(at, push) {
        state.production.resources[at].applying = None;
    }
}

async fn answer(world: &World, course: &Course, reply: oneshot::Sender<Answer>, answer: Answer) {
    if !course.answered {
        return;
    }
    let lost = world.state().strikes(Fault::LostAnswer);
    if let Some(back) = course.back {
        world.sleep(back).await;
    }
    // Ignore the error of a sender that is gone.
    let _ = reply.send(if lost {
        Err(plugin::Error::unknown("the connection was lost"))
    } else {
        answer
    });
}
