//! A flag and a version side by side on the same jobs: the version is bad and is taken back, the flag is not. A person
//! edits the flag of one cluster meanwhile, and is right.

use testbed::judge::{
    Held, Intent,
    broken::{broken, ensure, until},
    evidence, observe,
};

use super::{BAD, Session, Task, begin, by_edits, by_hand, flag_in, moments, says, task, tasks};
use crate::model::POLICY;

/// The number that the change sets, and the one that a person sets.
const FLAG: u32 = 3;
const BY_HAND: u32 = 5;
/// A comment that the person writes beside it.
const COMMENT: &str = " # measured in May";

/// Rolls out a flag, and a bad version beside it.
pub(in crate::demo) async fn beside(session: &mut Session) -> Held<String> {
    by_edits(session).await?;
    let order = session.manifest.rollout.domains.clone();
    let ([first, ..], Some(last)) = (&order[..], order.last()) else {
        return broken("the policy lists no cluster");
    };
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let (before, kills) = (session.manifest.clone(), moments(session));
    flag_in(session, "slower", FLAG, first).await?;
    let earlier = session.excused_answers()?;
    session.excuse(BAD, first);
    begin(session, "version-3", POLICY, &format!("version={BAD:?}")).await?;
    until("the version is in the first cluster", async || {
        let there = tasks(session, &mark, first)?;
        let there = there.last().map(|(_, task)| task.0.clone());
        ensure(there.as_deref() == Some(BAD), || format!("it is {there:?}"))
    })
    .await?;
    let old = before.clusters.get(last).and_then(|it| it.work_ms);
    let old = format!("work_ms: {}", old.unwrap_or_default());
    let hand = format!("work_ms: {BY_HAND}");
    by_hand(session, last, &old, &format!("{hand}{COMMENT}"))?;
    session.crash(&kills).await?;

    for (name, cluster) in &mut session.manifest.clusters {
        cluster.work_ms = Some(if name == last { BY_HAND } else { FLAG });
    }
    session.arrives().await?;
    let ends = ["rollout", "wait", "--of", "rollout/slower"];
    session.town.command(&ends).await?;
    says(
        session,
        &session
            .manifest
            .text()
            .replacen(&hand, &format!("{hand}{COMMENT}"), 1),
    )?;
    let flagged = task(&session.manifest, first)?;
    let bad = (BAD.to_owned(), flagged.1.clone());
    had(session, &mark, first, &[flagged.clone(), bad, flagged])?;
    for name in order.iter().filter(|it| *it != first) {
        had(session, &mark, name, &[task(&session.manifest, name)?])?;
    }
    observe::production_is(&place, &session.wanted()).await?;
    session.requests_pass(50).await?;
    let errors = session.excused_answers()? - earlier;
    ensure(errors > 0, || {
        format!("no request got an error of version {BAD}")
    })?;
    Ok(format!(
        "{first} had both, the version went back after {errors} errors, the flag stayed; {last} as a person wrote it, \
         killed {kills:?} ms later (journals, manifest)"
    ))
}

/// Expects that a cluster's job was changed to these tasks since `mark`, in this order.
fn had(session: &Session, mark: &evidence::Mark, cluster: &str, wanted: &[Task]) -> Held {
    let tasks = tasks(session, mark, cluster)?.into_iter();
    let tasks: Vec<Task> = tasks.map(|(_, task)| task).collect();
    ensure(tasks == wanted, || {
        format!("{cluster} had {tasks:?}, expected {wanted:?}")
    })
}
