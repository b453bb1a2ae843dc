//! Schedules: performances every minute, each longer than a minute. They run beside all other steps, whose kills they
//! survive.

use std::{collections::BTreeMap, fs};

use control_plane::workflow::Concurrency;
use testbed::{
    judge::{
        Held,
        broken::{broken, ensure, until},
    },
    place::Place,
    production::press::api::{Line, What, journal},
};

use super::Session;
use crate::model::Performances;

/// Length of a performance, in seconds. A cron expression has no seconds, so its slots are a minute apart.
const SECS: u64 = 75;
/// Maximum time from a slot, or from the end of what it waits for, to its print, in seconds. The control plane may be
/// killed in it, several times.
const LATE: u64 = 20;
/// Number of slots of each schedule that are judged.
const SLOTS: usize = 2;
/// Maximum number of waits of a minute until the slots have started.
const MINUTES: usize = 4;

/// Returns the schedules of the session, by name.
pub(in crate::demo) fn schedules() -> BTreeMap<String, Performances> {
    let every_minute = |concurrency| Performances {
        cron: "* * * * *".into(),
        concurrency,
        secs: SECS,
    };
    let forbid = ("forbid".to_owned(), every_minute(Concurrency::Forbid));
    let replace = ("replace".to_owned(), every_minute(Concurrency::Replace));
    [forbid, replace].into()
}

/// Judges the slots since the beginning of the session.
pub(in crate::demo) async fn on_time(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let replaced = bills(session, &place, "replace").await?;
    let forbidden = bills(session, &place, "forbid").await?;
    for line in &replaced {
        in_time(line, "its slot", line.at_micros % 60_000_000)?;
    }
    let minutes: Vec<u64> = replaced
        .iter()
        .map(|line| line.at_micros / 60_000_000)
        .collect();
    ensure(
        minutes.windows(2).all(|pair| pair[1] == pair[0] + 1),
        || format!("expected a performance in every minute, there are {replaced:?}"),
    )?;
    for pair in replaced.windows(2) {
        session.town.ends(id(&pair[0]), "cancelled").await?;
    }
    in_time(
        &forbidden[0],
        "its slot",
        forbidden[0].at_micros % 60_000_000,
    )?;
    for pair in forbidden.windows(2) {
        let over = pair[0].at_micros + SECS * 1_000_000;
        ensure(pair[1].at_micros >= over, || {
            format!("two at the same time: {pair:?}")
        })?;
        in_time(
            &pair[1],
            "the end of the one before",
            pair[1].at_micros - over,
        )?;
        session.town.ends(id(&pair[0]), "succeeded").await?;
    }
    let listed = session.town.command(&["schedules"]).await?;
    ensure(
        listed.contains("cron/forbid") && listed.contains("cron/replace"),
        || listed,
    )?;
    let posters = fs::read_dir(place.press().join("posters"))?.count();
    Ok(format!(
        "Forbid: {} performances, one after the other; Replace: {}, one in each minute (press, {posters} posters)",
        forbidden.len(),
        replaced.len()
    ))
}

/// Waits until so many bills of a schedule are printed as are judged. Returns them in order of time.
async fn bills(session: &Session, place: &Place, name: &str) -> Held<Vec<Line>> {
    let text = format!("bill: {name}");
    let bill = |line: &Line| matches!(&line.what, What::Printed { text: it } if *it == text);
    for _ in 0..MINUTES {
        let bills = until("the bills are printed", async || {
            let mut lines = journal(&place.press());
            lines.retain(bill);
            match lines.len() >= SLOTS {
                true => Ok(lines),
                false => broken(format_args!("the bills of {name} are {lines:?}")),
            }
        });
        if let Ok(bills) = bills.await {
            return Ok(bills);
        }
    }
    let listed = session.town.command(&["schedules"]).await?;
    broken(format_args!("{name} does not start its slots: {listed}"))
}

fn in_time(line: &Line, after: &str, late: u64) -> Held {
    ensure(late <= LATE * 1_000_000, || {
        format!("{late} us after {after}: {line:?}")
    })
}

/// Returns the execution that printed a line.
fn id(line: &Line) -> &str {
    line.key.split('/').next().unwrap_or_default()
}
