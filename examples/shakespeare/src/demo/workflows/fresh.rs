//! The index is made anew before it is older than the manifest says, whatever happens to the control plane.

use testbed::{
    judge::{
        Held,
        broken::{broken, ensure, until},
        prints::{self, PressMark},
    },
    place::Place,
    production::press::api::Faults,
};

use super::Session;
use crate::model::FreshIndex;

/// Maximum age of the index, in seconds.
const MAX_AGE: u64 = 12;
/// Number of indexes after the first one.
const AGAIN: usize = 3;
/// Maximum pause before a kill, in milliseconds.
const MIDDLE: usize = 5000;

/// Adds an index to the manifest, and expects that it is never older than it may be.
pub(in crate::demo) async fn index(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = prints::press(&place, Faults::default()).await?;
    let age = |max_age_secs| Some(FreshIndex { max_age_secs });
    session.edit(|manifest| manifest.index = age(MAX_AGE))?;
    made(&place, mark, 1).await?;
    let kills: Vec<u64> = (0..2).map(|_| session.dice.below(MIDDLE) as u64).collect();
    session.crash(&kills).await?;
    let times = made(&place, mark, 1 + AGAIN).await?;
    let ages = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    let oldest = ages.max().unwrap_or_default() as f64 / 1e6;
    ensure(oldest <= MAX_AGE as f64, || {
        format!("an index became {oldest:.1} s old")
    })?;
    // Another content is due at once, and then not for an hour.
    session.edit(|manifest| manifest.index = age(3600))?;
    made(&place, mark, times.len() + 1).await?;
    session.town.rests().await?;
    session.requests_pass(50).await?;
    Ok(format!(
        "killed {kills:?} ms apart; {} indexes, none older than {oldest:.1} s of {MAX_AGE} s (press)",
        times.len()
    ))
}

/// Waits until so many indexes were made since `mark`, each under a key of its own. Returns the times.
async fn made(place: &Place, mark: PressMark, many: usize) -> Held<Vec<u64>> {
    until("the index is made", async || {
        let lines = prints::printed(place, mark, "reindex-")?;
        let times: Vec<u64> = lines.iter().map(|line| line.at_micros).collect();
        match times.len() >= many {
            true => Ok(times),
            false => broken(format_args!("{} of {many} indexes", times.len())),
        }
    })
    .await
}
