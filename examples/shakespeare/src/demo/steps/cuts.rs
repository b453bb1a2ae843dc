//! The manifest cut short, as a full disk or an editor that dies leaves it: refused or identical, never less.

use std::fs;

use super::{
    super::{
        broken::{Held, ensure, until},
        evidence, eyes,
    },
    Session,
};
use crate::place::Place;

/// So many cuts are tried on the running control plane.
const CUTS: usize = 6;

/// Cuts at random bytes, and looks that nothing moves.
pub(super) async fn cut(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let before = everybody(session, &place).await?;
    let whole = session.manifest.to_yaml().into_bytes();
    let (mut refused, mut identical) = (0, 0);
    let mut cuts: Vec<usize> = (0..CUTS)
        .map(|_| session.dice.below(whole.len() + 1))
        .collect();
    // Chance seldom finds the places between two lines, and never all of them.
    let lines: Vec<usize> = (1..=whole.len())
        .filter(|at| whole[at - 1] == b'\n')
        .collect();
    cuts.extend(session.dice.pick(&lines));
    cuts.push(whole.len() - 1);
    session.dice.shuffle(&mut cuts);
    for cut in cuts {
        fs::write(place.manifest(), &whole[..cut])?;
        if cut + 1 < whole.len() {
            session
                .town
                .refuses("it does not end with the line")
                .await?;
            let manifest = place.manifest().display().to_string();
            let checked = session.town.command(&["check", &manifest]).await;
            ensure(checked.is_err(), || {
                format!("`check` likes the manifest cut at byte {cut}")
            })?;
            refused += 1;
        } else {
            identical += 1;
        }
        session.requests_pass(10).await?;
    }
    session.town.save(&session.manifest)?;
    session.town.accepts().await?;
    evidence::nothing_asked(&place, &mark)?;
    let after = everybody(session, &place).await?;
    ensure(before == after, || {
        format!("processes were {before:?} and are {after:?}")
    })?;
    Ok(format!(
        "{refused} cuts refused, {identical} identical; same processes, nothing asked (journals)"
    ))
}

async fn everybody(session: &Session, place: &Place) -> Held<Vec<Vec<u32>>> {
    let mut all = Vec::new();
    for name in session.clusters() {
        all.push(eyes::family(place, &name).await?);
    }
    Ok(all)
}

impl super::super::town::Town {
    /// Waits until the control plane says that it does not follow the manifest, in such words.
    pub(super) async fn refuses(&self, words: &str) -> Held<String> {
        until("the manifest is refused", async || {
            let problems = self.status().await?["generation"]["problems"].to_string();
            ensure(problems.contains(words), || format!("it says {problems}"))?;
            Ok(problems)
        })
        .await
    }

    /// Waits until it says that it follows it.
    pub(super) async fn accepts(&self) -> Held {
        until("the manifest is accepted", async || {
            let problems = self.status().await?["generation"]["problems"].clone();
            ensure(problems == serde_json::json!([]), || {
                format!("it says {problems}")
            })
        })
        .await
    }
}
