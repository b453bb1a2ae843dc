//! New versions: a good one rolls out cluster by cluster. A bad one reaches only the first cluster, rolls back and
//! stays in quarantine. The version after it rolls out normally.

use std::time::Duration;

use testbed::{
    judge::{
        Held, Wanted,
        broken::{broken, ensure, until},
        evidence::{self, Mark},
        observe,
    },
    place::Place,
    production::{GLOBAL_CELL, api::By},
};

use super::{BAD, Session};

/// Longer than it takes until a rollout begins.
const SOME_TIME: Duration = Duration::from_secs(3);

/// Rolls out version 2: the canary first, then cluster by cluster, each with its bake.
pub(super) async fn two(session: &mut Session) -> Held<String> {
    goes_out(session, "2").await
}

/// Rolls out version 4, after version 3 failed.
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

/// Rolls out version 3, which answers with errors. It is found unhealthy in the first cluster and rolled back. A later
/// edit of another field does not roll it out again.
pub(super) async fn three(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let mut wanted = session.wanted();
    let Some(canary) = session.manifest.rollout.domains.first().cloned() else {
        return broken("the policy lists no cluster");
    };
    session.excuse(BAD, &canary);
    session.edit(|manifest| manifest.version = BAD.into())?;
    went_back(&place, &mark, &canary, &wanted).await?;
    until("production is rolled back", async || {
        observe::production_is(&place, &wanted).await
    })
    .await?;
    session.town.rests().await?;
    let after = evidence::mark(&place)?;
    session.edit(|manifest| manifest.global.max_capacity += 8)?;
    wanted.global_capacity = session.manifest.global.max_capacity;
    until("the other edit arrives", async || {
        observe::production_is(&place, &wanted).await
    })
    .await?;
    session.town.rests().await?;
    tokio::time::sleep(SOME_TIME).await;
    observe::production_is(&place, &wanted).await?;
    let global = (GLOBAL_CELL.to_owned(), "balancer".to_owned());
    evidence::asked_once_each(&place, &after, &[global])?;
    never_elsewhere(&place, &mark, &canary)?;
    session.requests_pass(50).await?;
    let answered = session.excused_answers()?;
    ensure(answered > 0, || {
        format!("version {BAD} was rolled back, but no request got an error from it")
    })?;
    Ok(format!(
        "{answered} errors from {canary}'s canary, then rolled back; never in another cluster (journals); \
         an edit of {GLOBAL_CELL} did not roll it out again"
    ))
}

/// Waits until the control plane has changed the canary's job to the bad version and back, once each.
async fn went_back(place: &Place, mark: &Mark, canary: &str, wanted: &Wanted) -> Held {
    let expected = [BAD, &wanted.version];
    until("the bad version is rolled back", async || {
        let asked = evidence::asked(place, mark)?;
        let versions: Vec<&str> = asked
            .iter()
            .filter(|line| line.cell == canary && matches!(line.by, By::Owner { .. }))
            .filter_map(|line| line.to["version"].as_str())
            .collect();
        ensure(versions == expected && asked.len() == 2, || {
            format!("the changes are {asked:?}")
        })
    })
    .await
}

/// Expects that no journal of another cluster contains the bad version.
fn never_elsewhere(place: &Place, mark: &Mark, canary: &str) -> Held {
    for (cell, lines) in evidence::since(place, mark)? {
        let seen = lines.iter().find(|line| line.to["version"] == BAD);
        if let Some(line) = seen.filter(|_| cell != canary) {
            return broken(format_args!("{cell} got version {BAD}: {line:?}"));
        }
    }
    Ok(())
}
