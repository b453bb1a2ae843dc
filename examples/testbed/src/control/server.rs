//! The server of the control socket: translates between HTTP and [`Handle`]. It makes no decisions.

use std::{io, time::Duration};

use axum::{
    Json, Router,
    extract::{ConnectInfo, DefaultBodyLimit, Path, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use control_plane::{
    By, DryRun, Explained, Given, Handle, TrainView,
    enforcer::{ApprovalSet, Plan},
    model::{AssetId, Digest},
    prelude::{Timestamp, YamlFile},
    store::records::Scope,
    strategist::{GroupOutcome, Rollout, preview::Schedule},
    workflow::ScheduleWord,
};

use super::{
    ChangeRequest, Refusal, Rolling, Said, Standing, Word,
    answer::{Answer, Peer, Refused, Shared, Stop, spoken},
    executions,
    triggers::Trigger,
};
use crate::{
    manifest,
    place::Place,
    production::clock::now_micros,
    socket::{Socket, User},
};

/// The running server. Dropping it stops the server and removes the socket.
#[derive(Debug)]
pub struct Server {
    _socket: Socket,
    serving: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Starts the server on the control socket of `place`. Commands to a rollout are for that of `policy`.
    ///
    /// # Errors
    /// When the socket cannot be created, for instance because another control plane listens on it.
    pub fn start(place: &Place, handle: Handle, stop: Stop, policy: AssetId) -> io::Result<Self> {
        let (listener, socket) = Socket::listen(&place.control())?;
        let router = Router::new()
            .route("/status", get(status))
            .route("/rollouts", get(rollouts))
            .route("/rolled-out/{within}", get(rolled_out))
            .route("/change/{within}/{*key}", get(change))
            .route("/preview/{takes}", get(preview))
            .route("/preview/{takes}/{*key}", get(preview_of))
            .route("/trains", get(trains))
            .route("/approvals", get(approvals))
            .route("/plan", get(plan))
            .route("/explain", get(explain_all))
            .route("/explain/{*asset}", get(explain))
            .route("/check", post(check))
            .route("/tell", post(tell))
            .merge(executions::routes())
            .layer(DefaultBodyLimit::max(manifest::LIMIT as usize))
            .layer(middleware::from_fn(known))
            .with_state(Shared {
                handle,
                stop,
                policy,
            })
            .into_make_service_with_connect_info::<Peer>();
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the control socket failed and takes no commands; restart the control plane");
            }
        });
        Ok(Self {
            _socket: socket,
            serving,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Refuses requests of other users before they are parsed.
async fn known(
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let own = User::own();
    match peer {
        Some(user) if user.may_speak_to(own) => next.run(request).await,
        _ => {
            let peer = peer.map_or_else(
                || "a process without a user".into(),
                |user| user.to_string(),
            );
            let why = format!("this control plane answers {own} only; refused a request of {peer}");
            tracing::warn!("{why}");
            (StatusCode::FORBIDDEN, Json(Refusal::Other(why))).into_response()
        }
    }
}

async fn status(State(shared): State<Shared>) -> Answer<Standing> {
    let status = shared.handle.status().await?;
    // Rollouts fail before the first incarnation, and without ownership of the partition. The status contains the
    // reason.
    let rollouts = shared.handle.rollouts().await.unwrap_or_default();
    Ok(Json(Standing { status, rollouts }))
}

async fn rollouts(State(shared): State<Shared>) -> Answer<Vec<Rolling>> {
    let mut all = Vec::new();
    for view in shared.handle.rollouts().await? {
        let newest = view.rollout.as_ref().map(|rollout| rollout.id);
        let mut past = shared.handle.past_rollouts(&view.policy).await?;
        past.retain(|rollout| Some(rollout.id) != newest);
        all.push(Rolling { view, past });
    }
    Ok(Json(all))
}

/// Reads the manifest now and answers when its rollout is over, after `within` seconds at the latest.
async fn rolled_out(State(shared): State<Shared>, Path(within): Path<u32>) -> Answer<GroupOutcome> {
    let status = shared.handle.generation().await?.next_run().await;
    if status.problems.any_error() {
        return Err(Refusal::Problems(status.problems).into());
    }
    let newest = shared.handle.latest().await?.no();
    let within = Duration::from_secs(within.into());
    let ended = shared.handle.wait_rollout(&shared.policy, newest, within);
    Ok(Json(ended.await?))
}

/// Answers when a change has come to rest, after `within` seconds at the latest.
async fn change(
    State(shared): State<Shared>,
    Path((within, key)): Path<(u32, String)>,
) -> Answer<Rollout> {
    let key = AssetId::new(&key).map_err(|error| Refusal::Other(error.to_string()))?;
    let within = Duration::from_secs(within.into());
    Ok(Json(shared.handle.wait_roll_out(&key, within).await?))
}

/// Answers when the targets of the rollout of the manifest move, if each one takes `takes` seconds.
async fn preview(State(shared): State<Shared>, Path(takes): Path<u32>) -> Answer<Schedule> {
    let takes = Duration::from_secs(takes.into());
    let preview = shared.handle.preview_rollout(&shared.policy, takes);
    Ok(Json(preview.await?))
}

/// As [`preview`], of a change.
async fn preview_of(
    State(shared): State<Shared>,
    Path((takes, key)): Path<(u32, String)>,
) -> Answer<Schedule> {
    let key = AssetId::new(&key).map_err(|error| Refusal::Other(error.to_string()))?;
    let takes = Duration::from_secs(takes.into());
    Ok(Json(shared.handle.preview_rollout(&key, takes).await?))
}

async fn trains(State(shared): State<Shared>) -> Answer<Vec<TrainView>> {
    Ok(Json(shared.handle.trains().all().await?))
}

async fn plan(State(shared): State<Shared>) -> Answer<Plan> {
    Ok(Json(shared.handle.plan().await?))
}

async fn explain_all(State(shared): State<Shared>) -> Answer<Vec<Explained>> {
    Ok(Json(shared.handle.explain_all().await?))
}

async fn explain(State(shared): State<Shared>, Path(asset): Path<String>) -> Answer<Explained> {
    let asset = AssetId::new(&asset).map_err(|error| Refusal::Other(error.to_string()))?;
    Ok(Json(shared.handle.explain(&asset).await?))
}

/// Returns the incarnation that the manifest in the body would give.
async fn check(State(shared): State<Shared>, body: axum::body::Bytes) -> Answer<DryRun> {
    let file = manifest::source(YamlFile::new(manifest::NAME));
    let reading = file.parse(&body).map_err(Refusal::Problems)?;
    let given = Given::new(manifest::NAME, reading);
    Ok(Json(shared.handle.dry_run(&[&given]).await?))
}

async fn tell(
    State(Shared {
        handle,
        stop,
        policy,
    }): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(word): Json<Word>,
) -> Answer<()> {
    let by = |said: Said| spoken(peer, said);
    match word {
        Word::Approve {
            asset,
            change,
            said,
        } => approve(&handle, &asset, change, by(said)?).await?,
        Word::ApproveSet { set, size, said } => approve_set(&handle, &set, size, by(said)?).await?,
        Word::OverrideCheck {
            check,
            asset,
            change,
            said,
        } => {
            override_check(&handle, &check, &asset, change, by(said)?).await?;
        }
        Word::OverrideGuard {
            guard,
            digest,
            said,
        } => {
            let by = by(said)?;
            handle.override_guard(&guard, digest, by, None).await?;
        }
        Word::Acknowledge { asset, said } => acknowledge(&handle, &asset, by(said)?).await?,
        Word::PushIsOver { asset, said } => handle.push_is_over(&asset, by(said)?).await?,
        Word::ClearStop { said } => handle.clear_stop(by(said)?).await?,
        Word::Pause {
            asset,
            seconds,
            said,
        } => pause(&handle, asset, seconds, by(said)?).await?,
        Word::Resume { asset, said } => resume(&handle, asset, by(said)?).await?,
        Word::RollOut(wanted) => roll_out(&handle, wanted, by).await?,
        Word::Rollout { of, command, said } => {
            let of = of.unwrap_or(policy);
            handle.tell_rollout(&of, command, by(said)?).await?;
        }
        Word::Train { of, command, said } => {
            handle.trains().command(&of, command, by(said)?).await?;
        }
        Word::Execution { id, word, said } => {
            handle.say(&id, word.into(), by(said)?).await?;
        }
        Word::RunNow { asset, said } => drop(handle.run_schedule(&asset, by(said)?).await?),
        Word::Workflow(told) => told.give(&handle, by).await?,
        Word::Stop => stop.now(),
    }
    Ok(Json(()))
}

async fn approve(
    handle: &Handle,
    asset: &AssetId,
    named: Option<Digest>,
    by: By,
) -> Result<(), Refused> {
    let change = present(handle, asset, named).await?;
    Ok(handle.approve(asset, change, by, None).await?)
}

async fn approve_set(handle: &Handle, set: &str, size: usize, by: By) -> Result<(), Refused> {
    let all = handle.awaiting_approval().await?;
    let mut found = all
        .iter()
        .filter(|it| it.digest.to_string().starts_with(set));
    let (Some(one), None) = (found.next(), found.next()) else {
        let why = format!("`{set}` names no set, or several; `approvals` shows those that wait");
        return Err(Refusal::Other(why).into());
    };
    Ok(handle.approve_set(one.digest, size, by, None).await?)
}

async fn approvals(State(shared): State<Shared>) -> Answer<Vec<ApprovalSet>> {
    Ok(Json(shared.handle.awaiting_approval().await?))
}

async fn roll_out(
    handle: &Handle,
    wanted: ChangeRequest,
    by: impl Fn(Said) -> Result<By, Refusal>,
) -> Result<(), Refused> {
    let (change, by) = (&wanted.change, by(wanted.said)?);
    match wanted.hand_over {
        true => handle.hand_over(change, by).await?,
        false => handle.roll_out(change, by).await?,
    };
    Ok(())
}

async fn override_check(
    handle: &Handle,
    check: &str,
    asset: &AssetId,
    named: Option<Digest>,
    by: By,
) -> Result<(), Refused> {
    let change = present(handle, asset, named).await?;
    let lifted = handle.override_check(asset, change, check, by, None);
    Ok(lifted.await?)
}

async fn acknowledge(handle: &Handle, asset: &AssetId, by: By) -> Result<(), Refused> {
    match Trigger::of(handle, asset).await? {
        Some(trigger) => {
            trigger
                .told(handle, asset, ScheduleWord::Acknowledge, by)
                .await
        }
        None => Ok(handle.acknowledge(asset, by).await?),
    }
}

async fn pause(
    handle: &Handle,
    asset: Option<AssetId>,
    seconds: Option<u64>,
    by: By,
) -> Result<(), Refused> {
    if let Some(asset) = &asset
        && let Some(trigger) = Trigger::of(handle, asset).await?
    {
        if seconds.is_some() {
            let why =
                format!("{asset} is paused until `resume`: leave out the length of the pause");
            return Err(Refused(Refusal::Other(why)));
        }
        return trigger.told(handle, asset, ScheduleWord::Pause, by).await;
    }
    let until = seconds.map(in_seconds);
    Ok(handle.pause(scope(asset), by, until).await?)
}

async fn resume(handle: &Handle, asset: Option<AssetId>, by: By) -> Result<(), Refused> {
    if let Some(asset) = &asset
        && let Some(trigger) = Trigger::of(handle, asset).await?
    {
        return trigger.told(handle, asset, ScheduleWord::Resume, by).await;
    }
    Ok(handle.resume(scope(asset), by).await?)
}

fn in_seconds(seconds: u64) -> Timestamp {
    let then = now_micros().saturating_add(seconds.saturating_mul(1_000_000));
    let then = i64::try_from(then).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(then).unwrap_or(Timestamp::MAX)
}

fn scope(asset: Option<AssetId>) -> Scope {
    asset.map_or(Scope::Partition, Scope::Asset)
}

/// Returns the digest given by the operator, or else that of the asset's pending change, or of the change for which a
/// rollout does not move the asset.
async fn present(
    handle: &Handle,
    asset: &AssetId,
    named: Option<Digest>,
) -> Result<Digest, Refused> {
    if let Some(digest) = named {
        return Ok(digest);
    }
    let explained = handle.explain(asset).await?;
    let first = explained
        .enforced()
        .and_then(|enforced| enforced.chain.first());
    let change = first.and_then(|first| {
        let ahead = first.ahead.as_ref().map(|ahead| &ahead.change);
        first.change.as_ref().or(ahead)
    });
    change.map(|change| change.digest).ok_or_else(|| {
        Refused(Refusal::Other(format!(
            "{asset} has no pending change: see `explain {asset}`"
        )))
    })
}
