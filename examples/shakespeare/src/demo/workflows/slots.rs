//! Schedules: performances every minute, each longer than a minute. They run beside all other steps, whose kills they
//! survive.

use std::collections::BTreeMap;

use control_plane::workflow::Concurrency;
use testbed::{
    judge::{
        Held,
        broken::{broken, ensure, until},
    },
    production::{
        clock::now_micros,
        press::api::{Line, What, journal},
    },
};

use super::Session;
use crate::model::Performances;

/// Length of a performance, in seconds. A cron expression has no seconds, so its slots are a minute apart.
const SECS: u64 = 90;
/// Maximum time from a slot, or from the end of what it waits for, to its print, in seconds. The control plane may be
/// killed in it, several times.
const LATE: u64 = 20;
/// Maximum time that the press takes for a bill, in seconds. A performance begins when its bill is asked for.
const PRINTING: u64 = 3;
/// A second, in microseconds.
const SECOND: u64 = 1_000_000;
/// A minute, in microseconds. Slots are whole minutes since 1970.
const MINUTE: u64 = 60 * SECOND;
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
    let forbidden = bills(session, "forbid").await?;
    one_after_the_other(session, &forbidden).await?;
    let replaced = bills(session, "replace").await?;
    in_each_minute(session, &replaced).await?;
    let listed = session.town.command(&["schedules"]).await?;
    let both = listed.contains("cron/forbid") && listed.contains("cron/replace");
    ensure(both, || listed)?;
    Ok(format!(
        "Forbid: {} performances, one after the other; Replace: {}, one in each minute (press)",
        forbidden.len(),
        replaced.len()
    ))
}

/// Expects that a performance begins when the one before is over, and that the last one began not long ago.
async fn one_after_the_other(session: &Session, bills: &[Line]) -> Held {
    in_time(&bills[0], "its slot", bills[0].at_micros % MINUTE)?;
    for pair in bills.windows(2) {
        let over = pair[0].at_micros + (SECS - PRINTING) * SECOND;
        ensure(pair[1].at_micros >= over, || {
            format!("two at the same time: {pair:?}")
        })?;
        // A slot that waits starts now. If there is none, the next one is at most a minute later.
        let late = pair[1]
            .at_micros
            .saturating_sub(over.next_multiple_of(MINUTE));
        in_time(&pair[1], "the end of the one before", late)?;
        session.town.ends(id(&pair[0]), "succeeded").await?;
    }
    let last = &bills[bills.len() - 1];
    let since = now_micros().saturating_sub(last.at_micros + SECS * SECOND + MINUTE);
    in_time(last, "the end of the last one", since)
}

/// Expects that a performance begins in each minute until now, and that it ends the one before.
async fn in_each_minute(session: &Session, bills: &[Line]) -> Held {
    for line in bills {
        in_time(line, "its slot", line.at_micros % MINUTE)?;
    }
    let minutes: Vec<u64> = bills.iter().map(|line| line.at_micros / MINUTE).collect();
    let newest = now_micros().saturating_sub(LATE * SECOND) / MINUTE;
    let in_each = minutes.windows(2).all(|pair| pair[1] == pair[0] + 1);
    ensure(in_each && minutes.last() >= Some(&newest), || {
        format!("expected a performance in each minute until {newest}, there are {bills:?}")
    })?;
    for pair in bills.windows(2) {
        session.town.ends(id(&pair[0]), "cancelled").await?;
    }
    Ok(())
}

/// Waits until so many bills of a schedule are printed as are judged. Returns them in order of time.
async fn bills(session: &Session, name: &str) -> Held<Vec<Line>> {
    let press = session.town.place.press();
    let text = format!("bill: {name}");
    let bill = |line: &Line| matches!(&line.what, What::Printed { text: it } if *it == text);
    for _ in 0..MINUTES {
        let bills = until("the bills are printed", async || {
            let mut lines = journal(&press);
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
    ensure(late <= LATE * SECOND, || {
        format!("{late} us after {after}: {line:?}")
    })
}

/// Returns the execution that printed a line.
fn id(line: &Line) -> &str {
    line.key.split('/').next().unwrap_or_default()
}
