//! A watch: people are told once when the tasks of a cluster have been out of sync for some time, and again only after
//! they were in sync.

use testbed::{
    judge::{
        Held,
        broken::{broken, ensure, until},
        observe,
        prints::{self, PressMark},
    },
    place::Place,
    production::{
        JOB,
        api::Caller,
        clock::now_micros,
        press::api::{Faults, Line, What},
    },
};

use super::{Session, moments};
use crate::model::Notices;

/// Time that tasks must have been out of sync, in seconds.
const OUT_OF_SYNC: u64 = 3;
/// Number of times that the tasks are out of sync for longer.
const TIMES: usize = 2;
/// A second, in microseconds.
const SECOND: u64 = 1_000_000;

/// Returns the notices of the session.
pub(in crate::demo) fn notices() -> Notices {
    Notices {
        out_of_sync_secs: OUT_OF_SYNC,
    }
}

/// Scales a job by hand while its repair is paused, twice, and expects one notice each time.
pub(in crate::demo) async fn once(session: &mut Session) -> Held<String> {
    let cluster = session.some_cluster()?;
    let mut kills = Vec::new();
    let mut after = Vec::new();
    for _ in 0..TIMES {
        let moments = moments(session);
        let seconds = out_of_sync(session, &cluster, &moments).await?;
        after.push(format!("{seconds:.1} s"));
        kills.push(moments);
    }
    session.requests_pass(50).await?;
    Ok(format!(
        "{cluster} out of sync {TIMES} times, killed {kills:?} ms apart; one notice each time, after {} (press)",
        after.join(" and ")
    ))
}

/// Keeps the tasks of a cluster out of sync until there is a notice, and longer. Returns after how many seconds it came.
async fn out_of_sync(session: &mut Session, cluster: &str, kills: &[u64]) -> Held<f64> {
    let place = session.town.place.clone();
    let mark = prints::press(&place, Faults::default()).await?;
    let job = format!("job/{cluster}");
    told_to(session, &["pause", &job]).await?;
    let since = now_micros();
    let cell = observe::cell(&place, cluster).await?;
    let mut spec = observe::job(&cell).await?.spec;
    spec.replicas += 1;
    cell.put_job(JOB, &spec, &Caller::default()).await?;
    session.crash(kills).await?;
    let first = until("there is a notice", async || {
        match &told(&place, mark, &job)?[..] {
            [] => {
                let listed = session.town.command(&["watches"]).await?;
                let ended = ["workflow", "list", "--ended"];
                let ended = session.town.command(&ended).await?;
                broken(format_args!("{listed}; {ended}"))
            }
            [line, ..] => Ok(line.clone()),
        }
    })
    .await?;
    session.crash(kills).await?;
    let alone = || {
        let lines = told(&place, mark, &job)?;
        ensure(lines.len() == 1, || format!("the notices are {lines:?}"))
    };
    session
        .town
        .stays("watches", "watch/notices", alone)
        .await?;
    told_to(session, &["resume", &job]).await?;
    session.arrives().await?;
    // Only what the control plane has seen in sync can be out of sync anew.
    session.town.rests().await?;
    alone()?;
    let after = first.at_micros.saturating_sub(since);
    ensure(after >= OUT_OF_SYNC * SECOND, || {
        format!("{after} us after the tasks were changed: {first:?}")
    })?;
    Ok(after as f64 / 1e6)
}

/// Gives a command until it is taken: a control plane that has just been killed gives no answer.
async fn told_to(session: &Session, command: &[&str]) -> Held {
    until("the command is taken", async || {
        session.town.command(command).await.map(|_| ())
    })
    .await
}

/// Returns the notices about a job since `mark`.
fn told(place: &Place, mark: PressMark, job: &str) -> Held<Vec<Line>> {
    let text = format!("notice: {job}");
    let mut lines = prints::printed(place, mark, "")?;
    lines.retain(|line| matches!(&line.what, What::Printed { text: it } if *it == text));
    Ok(lines)
}
