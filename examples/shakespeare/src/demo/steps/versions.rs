//! New versions: one that is good goes cluster by cluster; one that is bad gets no further than the first cluster, goes
//! back and stays away; the next one is as if it had never been.

use std::time::Duration;

use super::{
    super::{
        broken::{Held, broken, ensure, until},
        evidence::{self, Mark},
        eyes,
    },
    Session,
};
use crate::{
    model::{GLOBAL_CELL, Manifest},
    place::Place,
    production::api::By,
};

/// The version whose release is defective.
const BAD: &str = "3";
/// Longer than a rollout that may begin takes to do so.
const SOME_TIME: Duration = Duration::from_secs(3);

/// Version 2: the canary first, then cluster by cluster, each baked before the next.
pub(super) async fn two(session: &mut Session) -> Held<String> {
    goes_out(session, "2").await
}

/// Version 4, after version 3 was no good.
pub(super) async fn four(session: &mut Session) -> Held<String> {
    goes_out(session, "4").await
}

async fn goes_out(session: &mut Session, version: &str) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    session.edit(|manifest| manifest.version = version.into())?;
    session.arrives().await?;
    let bakes = session.one_by_one(&mark)?;
    evidence::asked_once_each(&place, &mark, &session.every_job())?;
    session.only_this_version_answers().await?;
    Ok(format!(
        "{bakes} (journals); each job changed once; only {version} answers (client)"
    ))
}

/// Version 3 serves errors under load: found in the first cluster, and taken back. An edit of something else does not
/// bring it back.
pub(super) async fn three(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let mut wanted = session.manifest.clone();
    let Some(canary) = session.manifest.rollout.domains.first().cloned() else {
        return broken("the policy lists no cluster");
    };
    session.excuse(BAD, &canary);
    session.edit(|manifest| manifest.version = BAD.into())?;
    went_back(&place, &mark, &canary, &wanted).await?;
    until("production is as it was", async || {
        eyes::production_is(&place, &wanted).await
    })
    .await?;
    session.rests().await?;
    let after = evidence::mark(&place)?;
    session.edit(|manifest| manifest.global.max_capacity += 8)?;
    wanted.global = session.manifest.global.clone();
    until("the other edit arrives", async || {
        eyes::production_is(&place, &wanted).await
    })
    .await?;
    session.rests().await?;
    tokio::time::sleep(SOME_TIME).await;
    eyes::production_is(&place, &wanted).await?;
    let global = (GLOBAL_CELL.to_owned(), "balancer".to_owned());
    evidence::asked_once_each(&place, &after, &[global])?;
    never_elsewhere(&place, &mark, &canary)?;
    session.requests_pass(50).await?;
    let answered = session.excused_answers()?;
    ensure(answered > 0, || {
        format!("no request was answered with an error by version {BAD}: what was it judged by?")
    })?;
    Ok(format!(
        "{answered} errors from {canary}'s canary, and back; no other cluster ever saw it (journals); \
         an edit of {GLOBAL_CELL} did not bring it back"
    ))
}

/// The canary's job was asked for the bad version, and then for what it was; by the control plane, once each.
async fn went_back(place: &Place, mark: &Mark, canary: &str, wanted: &Manifest) -> Held {
    let expected = [BAD, &wanted.version];
    until("the bad version went back", async || {
        let asked = evidence::asked(place, mark)?;
        let versions: Vec<&str> = asked
            .iter()
            .filter(|line| line.cell == canary && matches!(line.by, By::Owner { .. }))
            .filter_map(|line| line.to["version"].as_str())
            .collect();
        ensure(versions == expected && asked.len() == 2, || {
            format!("asked for was {asked:?}")
        })
    })
    .await
}

/// No line of another cluster's journal speaks of the bad version.
fn never_elsewhere(place: &Place, mark: &Mark, canary: &str) -> Held {
    for (cell, lines) in evidence::since(place, mark)? {
        let seen = lines.iter().find(|line| line.to["version"] == BAD);
        if let Some(line) = seen.filter(|_| cell != canary) {
            return broken(format_args!("{cell} saw version {BAD}: {line:?}"));
        }
    }
    Ok(())
}
