//! Seasons: printed, cleaned up, cancelled and restarted. The press works slowly and badly, and the control plane dies.

use serde_json::json;
use testbed::{
    judge::{
        Held,
        broken::ensure,
        prints::{self, PressMark},
    },
    production::{clock::now_micros, press::api::Faults},
};

use super::{Session, moments};

/// What a season prints in its first run.
const PRINTS: [&str; 3] = ["posters/1", "tickets/1", "programme/1"];

/// A season that was started.
struct Season {
    id: String,
    mark: PressMark,
}

impl Season {
    /// Starts a season of these works with a press that works this badly. `name` is the key.
    async fn start(session: &Session, name: &str, works: &[&str], faults: Faults) -> Held<Self> {
        let mark = prints::press(&session.town.place, faults).await?;
        let id = start(session, name, works).await?;
        Ok(Self { id, mark })
    }

    /// Waits until the season asks whether it opens, in this run of the question.
    async fn asks(&self, session: &Session, run: u64) -> Held {
        let town = &session.town;
        town.machine_waits(&self.id, "go", run, "Open the season?")
            .await
    }

    /// Answers yes, and waits until the season has ended well.
    async fn opens(&self, session: &Session) -> Held {
        let town = &session.town;
        town.tells(&["answer", &self.id, "go", "yes"]).await?;
        town.ends(&self.id, "succeeded").await.map(|_| ())
    }

    /// Expects that exactly these keys of it were printed since its start, each once.
    fn printed_once_each(&self, session: &Session, steps: &[&str]) -> Held {
        prints::printed_once_each(&session.town.place, self.mark, &self.id, steps)
    }

    /// Expects that none of its posters is left.
    fn nothing_is_left(&self, session: &Session) -> Held {
        let left = prints::posters(&session.town.place, &self.id)?;
        ensure(left.is_empty(), || format!("left are {left:?}"))
    }
}

/// Starts a season of these works under the key `name`, or finds it. Returns its id.
pub(super) async fn start(session: &Session, name: &str, works: &[&str]) -> Held<String> {
    let input = json!({ "works": works }).to_string();
    let start = ["season", "--key", name, "--input", &input];
    session.town.starts(&start).await
}

/// Returns how badly the press works: slow, and one of the first calls fails or gets no answer.
fn some_faults(session: &mut Session) -> Faults {
    let slow_ms = 100 + session.dice.below(500) as u64;
    let (fail, drop) = match session.dice.below(2) {
        0 => (1, 0),
        _ => (0, 1),
    };
    Faults {
        slow_ms,
        fail,
        drop,
    }
}

/// Prints a season, and expects one effect per key.
pub(in crate::demo) async fn printed(session: &mut Session) -> Held<String> {
    let (faults, kills) = (some_faults(session), moments(session));
    let works = ["hamlet", "lear"];
    let season = Season::start(session, "printed", &works, faults).await?;
    session.crash(&kills).await?;
    season.asks(session, 1).await?;
    season.opens(session).await?;
    let again = start(session, "printed", &works).await?;
    ensure(again == season.id, || {
        format!("the same key has started {again} beside {}", season.id)
    })?;
    season.printed_once_each(session, &PRINTS)?;
    let calls = prints::calls(&session.town.place, season.mark, &season.id);
    session.requests_pass(50).await?;
    Ok(format!(
        "killed {kills:?} ms in; {calls} calls of 3 keys, each printed once (press); the same key: the same season"
    ))
}

/// Starts a season of which a text is lost: verification fails, and nothing that was printed is left.
pub(in crate::demo) async fn cleaned_up(session: &mut Session) -> Held<String> {
    let (faults, kills) = (some_faults(session), moments(session));
    let season = Season::start(session, "cleaned-up", &["hamlet", "cardenio"], faults).await?;
    session.crash(&kills).await?;
    let states = session.town.ends(&season.id, "failed").await?;
    ensure(states["verify"] == "failed", || {
        format!("the states are {states}")
    })?;
    season.printed_once_each(session, &PRINTS[..2])?;
    season.nothing_is_left(session)?;
    session.requests_pass(50).await?;
    Ok(format!(
        "killed {kills:?} ms in; posters and tickets printed once each, and destroyed (press)"
    ))
}

/// Cancels a season while the press prints: what was begun is destroyed, and nothing else begins.
pub(in crate::demo) async fn cancelled(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let kills = moments(session);
    let slow_ms = 700 + session.dice.below(500) as u64;
    let faults = Faults {
        slow_ms,
        ..Faults::default()
    };
    let season = Season::start(session, "cancelled", &["othello"], faults).await?;
    prints::called(&place, season.mark, &season.id, "posters/1").await?;
    session.town.tells(&["cancel", &season.id]).await?;
    let when = now_micros();
    session.crash(&kills).await?;
    session.town.ends(&season.id, "cancelled").await?;
    season.nothing_is_left(session)?;
    let late = prints::first_called_after(&place, season.mark, &season.id, when);
    let undo = format!("{}/undo-", season.id);
    ensure(late.iter().all(|key| key.starts_with(&undo)), || {
        format!("called after the cancel: {late:?}")
    })?;
    let printed = prints::printed(&place, season.mark, &season.id)?;
    session.requests_pass(50).await?;
    Ok(format!(
        "cancelled in the middle of a print, killed {kills:?} ms later; {} printed and destroyed, nothing else begun (press)",
        printed.len()
    ))
}

/// Restarts two branches of a season at once: they are printed again under new keys, and nothing else is.
pub(in crate::demo) async fn restarted(session: &mut Session) -> Held<String> {
    let (faults, kills) = (some_faults(session), moments(session));
    let season = Season::start(session, "restarted", &["tempest", "lear"], faults).await?;
    season.asks(session, 1).await?;
    season.printed_once_each(session, &PRINTS)?;
    let word = ["restart", &season.id, "programme", "tickets"];
    session.town.tells(&word).await?;
    session.crash(&kills).await?;
    season.asks(session, 2).await?;
    season.opens(session).await?;
    let all = [&PRINTS[..], &["programme/2", "tickets/2"]].concat();
    season.printed_once_each(session, &all)?;
    session.requests_pass(50).await?;
    Ok(format!(
        "programme and tickets at once, killed {kills:?} ms later; new keys for these two only, each printed once (press)"
    ))
}
