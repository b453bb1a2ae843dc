//! The manifest is cut short, as after a full disk or a crash of the editor: it is refused, or identical to the whole
//! one.

use std::fs;

use crate::{
    judge::{
        Intent, Session,
        broken::{Held, ensure},
        evidence, observe,
    },
    place::Place,
};

/// Number of cuts at random bytes.
const CUTS: usize = 6;

/// Cuts the manifest at random bytes, and expects that production does not change.
pub async fn cut(session: &mut Session<impl Intent>) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let before = processes(session, &place).await?;
    let whole = session.manifest.text().into_bytes();
    let (mut refused, mut identical) = (0, 0);
    let mut cuts: Vec<usize> = (0..CUTS)
        .map(|_| session.dice.below(whole.len() + 1))
        .collect();
    // Add a cut between two lines, which random bytes seldom hit, and one before the last line break.
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
                format!("`check` accepts the manifest cut at byte {cut}")
            })?;
            refused += 1;
        } else {
            identical += 1;
        }
        session.requests_pass(10).await?;
    }
    session.town.save(&session.manifest.text())?;
    session.town.accepts().await?;
    evidence::nothing_asked(&place, &mark)?;
    let after = processes(session, &place).await?;
    ensure(before == after, || {
        format!("the processes were {before:?} and are now {after:?}")
    })?;
    Ok(format!(
        "{refused} cuts refused, {identical} identical; same processes, no changes (journals)"
    ))
}

async fn processes(session: &Session<impl Intent>, place: &Place) -> Held<Vec<Vec<u32>>> {
    let mut all = Vec::new();
    for name in session.clusters() {
        all.push(observe::family(place, &name).await?);
    }
    Ok(all)
}
