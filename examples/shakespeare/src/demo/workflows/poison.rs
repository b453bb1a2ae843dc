//! An input that ends the process of the control plane: after some deaths it is parked, and what runs beside it goes on.

use testbed::{
    judge::{
        Held,
        broken::{broken, ensure},
        prints,
    },
    production::press::api::Faults,
};

use super::{Session, moments, seasons};

/// Maximum number of deaths until the input is parked: the first one may leave no trace, three are counted.
const MOST_DEATHS: u32 = 4;
/// Maximum number of looks until the input is parked.
const LOOKS: u32 = 300;

/// Starts a season that aborts the control plane, beside one that does not.
pub(in crate::demo) async fn parked(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let kills = moments(session);
    let faults = Faults {
        slow_ms: 200,
        ..Faults::default()
    };
    let mark = prints::press(&place, faults).await?;
    let beside = seasons::start(session, "beside", &["hamlet"]).await?;
    let (cursed, deaths) = until_parked(session).await?;
    session.town.machine_waits(&beside, "go", 1, "Open").await?;
    session
        .town
        .tells(&["answer", &beside, "go", "yes"])
        .await?;
    session.town.ends(&beside, "succeeded").await?;
    let printed = ["posters/1", "tickets/1", "programme/1"];
    prints::printed_once_each(&place, mark, &beside, &printed)?;
    session.crash(&kills).await?;
    // It stays parked: a later process does not call it either.
    session
        .town
        .machine_waits(&cursed, "load", 1, "replay")
        .await?;
    prints::printed_once_each(&place, mark, &cursed, &["posters/1"])?;
    session.requests_pass(50).await?;
    Ok(format!(
        "parked after {deaths} deaths, also when killed {kills:?} ms later; the season beside it printed once each (press) and ended"
    ))
}

/// Starts the season again and again, and the control plane whenever it has died. Returns the id of the season, and the
/// number of deaths.
async fn until_parked(session: &mut Session) -> Held<(String, u32)> {
    let input = r#"{"works":["macbeth"]}"#;
    let start = [
        "workflow", "start", "season", "--key", "cursed", "--input", input,
    ];
    let mut deaths = 0;
    for _ in 0..LOOKS {
        deaths += u32::from(session.town.revive()?);
        ensure(deaths <= MOST_DEATHS, || {
            format!("the control plane has died {deaths} times")
        })?;
        // A control plane that has died gives no answer.
        let said = session.town.command(&start).await.unwrap_or_default();
        let Some(id) = said.split_whitespace().next() else {
            continue;
        };
        let shown = session.town.command(&["workflow", "explain", id]).await;
        if shown.is_ok_and(|shown| shown.contains("parked: ")) {
            return Ok((id.to_owned(), deaths));
        }
    }
    broken(format_args!("it is not parked after {deaths} deaths"))
}
