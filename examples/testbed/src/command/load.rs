//! `load`: a client that sends requests to the global balancer. The health of a rollout is judged by their answers:
//! without requests, health is unknown and the rollout waits.

use std::{collections::BTreeMap, fmt, time::Duration};

use hyper::Method;

use super::running::front_door;
use crate::{
    place::Place,
    production::load::{Attempt, Load},
    program::{Failure, called, signalled},
    voice::say,
};

/// Number of connections. Together they send about 80 requests per second.
const CONNECTIONS: usize = 2;
/// Pause of a connection between an answer and its next request.
const REST: Duration = Duration::from_millis(20);
/// Interval between two lines of output.
const EVERY: Duration = Duration::from_secs(5);

/// Sends requests until Ctrl-C and prints how many answers came from each version.
///
/// # Errors
/// When the service is not running.
pub(super) async fn load(place: &Place) -> Result<(), Failure> {
    let Some(address) = front_door(place).await else {
        let (me, state) = (called(), place.dir().display());
        return Err(format!(
            "the service is not running: start it with `{me} --state {state} run`"
        )
        .into());
    };
    say(format_args!(
        "sending requests to http://{address}/ until Ctrl-C"
    ));
    let load = Load::start(address, &Method::GET, CONNECTIONS, REST);
    let mut all = Answers::default();
    let mut stopped = std::pin::pin!(signalled());
    loop {
        tokio::select! {
            () = &mut stopped => break,
            () = tokio::time::sleep(EVERY) => {
                let log = load.take();
                say(Answers::of(&log));
                all.add(&log);
            }
        }
    }
    all.add(&load.stop().await);
    say(format_args!("total: {all}"));
    Ok(())
}

/// Number of answers per version, and how many of them were errors.
#[derive(Default)]
struct Answers(BTreeMap<String, (u64, u64)>);

impl Answers {
    fn of(log: &[Attempt]) -> Self {
        let mut answers = Self::default();
        answers.add(log);
        answers
    }

    fn add(&mut self, log: &[Attempt]) {
        for attempt in log {
            let version = attempt.version.as_deref();
            let version =
                version.map_or("no version".into(), |version| format!("version {version}"));
            let (all, errors) = self.0.entry(version).or_default();
            *all += 1;
            *errors += u64::from(attempt.failed());
        }
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests: u64 = self.0.values().map(|(all, _)| all).sum();
        let words = self.0.iter().map(|(version, (all, errors))| match errors {
            0 => format!("{all} answered by {version}"),
            errors => format!("{all} answered by {version}, {errors} of them errors"),
        });
        let words: Vec<String> = words.collect();
        write!(f, "{requests} requests: {}", words.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_per_version() {
        let attempt = |version: Option<&str>, status| Attempt {
            start_micros: 0,
            end_micros: 1,
            status,
            error: None,
            frontend: None,
            version: version.map(str::to_owned),
            worked: None,
        };
        let log = [
            attempt(Some("1"), Some(200)),
            attempt(Some("3"), Some(200)),
            attempt(Some("3"), Some(500)),
            attempt(None, None),
        ];
        let said = "4 requests: 1 answered by no version, 1 of them errors; 1 answered by version 1; \
                    2 answered by version 3, 1 of them errors";
        assert_eq!(Answers::of(&log).to_string(), said);
    }
}
