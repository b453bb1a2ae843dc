//! Waves with a very long bake, each of which an operator promotes.

use testbed::{
    judge::{
        Held,
        broken::{ensure, until},
        evidence::{self, Mark},
        observe,
    },
    production::{api::Line, clock::now_micros},
};

use super::Session;
use crate::model::{Rollout, Wave};

/// A bake that is longer than the session, in seconds.
const FOR_EVER: u64 = 600;

/// Expects that each wave begins only after the operator has promoted the previous one.
pub(super) async fn promoted(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let usual = session.manifest.rollout.clone();
    let (sizes, waves) = some_waves(session);
    let version = session.fresh_version();
    session.edit(|manifest| {
        manifest.version = version;
        manifest.rollout = Rollout {
            waves,
            ..Rollout::default()
        };
    })?;
    let mut promotions = Vec::new();
    for (nth, size) in (1..).zip(&sizes) {
        let wait = format!("wave {nth} of {}: bakes until", sizes.len());
        until("the wave bakes", async || {
            let status = ["rollout", "status", "--once"];
            let words = session.town.command(&status).await?;
            ensure(words.contains(&wait), || words)
        })
        .await?;
        has(session, &mark, *size).await?;
        session.requests_pass(50).await?;
        promotions.push((now_micros(), *size));
        let promote = ["rollout", "promote", "--who", "jane", "--why", "looks good"];
        session.town.command(&promote).await?;
    }
    session.arrives().await?;
    evidence::asked_once_each(&place, &mark, &session.every_job())?;
    let asked = evidence::asked(&place, &mark)?;
    for (when, size) in promotions {
        let early = asked.iter().filter(|line| line.at_micros < when).count();
        ensure(early == size, || {
            format!("{early} jobs were changed before the promotion, expected {size}")
        })?;
    }
    session.town.rests().await?;
    session.edit(|manifest| manifest.rollout = usual)?;
    session.requests_pass(50).await?;
    Ok(format!(
        "waves of {sizes:?} jobs and the rest, each after a promotion instead of {FOR_EVER} s (journals)"
    ))
}

/// Returns the number of jobs that are updated after each wave, and the waves, with counts or percentages.
fn some_waves(session: &mut Session) -> (Vec<usize>, Vec<Wave>) {
    let all = session.clusters().len();
    let mut sizes: Vec<usize> = (1..all).collect();
    let left_out = session.dice.below(sizes.len() + 1);
    if left_out < sizes.len() && sizes.len() > 1 {
        sizes.remove(left_out);
    }
    let in_numbers = session.dice.below(2) == 0;
    let wave = |size: &usize| Wave {
        count: in_numbers.then_some(*size as u32),
        percent: (!in_numbers).then_some((100 * size / all) as u8),
        bake: FOR_EVER,
    };
    let waves = sizes.iter().map(wave).collect();
    (sizes, waves)
}

/// Expects that `size` clusters have the new version and no other cluster was changed.
async fn has(session: &Session, mark: &Mark, size: usize) -> Held {
    let place = &session.town.place;
    let asked: Vec<Line> = evidence::asked(place, mark)?;
    ensure(asked.len() == size, || {
        format!("expected {size} changes, the journals have {asked:?}")
    })?;
    for line in asked {
        let cell = observe::cell(place, &line.cell).await?;
        if let Some(wanted) = session.wanted().clusters.get(&line.cell) {
            observe::job_is(&cell, &wanted.job).await?;
        }
    }
    Ok(())
}
