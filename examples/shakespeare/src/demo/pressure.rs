//! A cluster kept full, and whether its balancer lets through no more than it says. By the frontends' own word, from when
//! to when each had a request: what they work on is in flight at the balancer, whatever that says of itself.

use std::time::Duration;

use super::{
    broken::{Held, broken, ensure, until},
    eyes,
    session::Session,
};
use crate::production::{
    api::{Change, Line},
    load::{Attempt, Load},
};

/// How long each request that fills a cluster takes.
const WORK: Duration = Duration::from_millis(200);

/// Requests that keep a cluster's balancer full, each followed by the next.
#[derive(Debug)]
pub(super) struct Pressure {
    cluster: String,
    /// What the balancer lets through to begin with.
    limit: u64,
    load: Load,
}

impl Session {
    /// Fills a cluster until more is in flight there than `shrunk`.
    pub(super) async fn fill(&self, cluster: &str, shrunk: u32) -> Held<Pressure> {
        let cell = eyes::cell(&self.town.place, cluster).await?;
        let balancer = eyes::balancer(&cell).await?;
        let limit = balancer.max_capacity_in_force;
        let load = Load::slow(balancer.address, limit as usize, WORK);
        until("the cluster is full", async || {
            let most = peak(&load.so_far());
            ensure(most > u64::from(shrunk), || {
                format!("{most} in flight at {cluster}, {limit} at most")
            })
        })
        .await?;
        Ok(Pressure {
            cluster: cluster.to_owned(),
            limit: limit.into(),
            load,
        })
    }
}

impl Pressure {
    /// Lets go. None of its requests has failed, and there never were more than the balancer said in these lines of the
    /// cluster's journal. `others` may have been served there too. Says how many requests were looked at.
    pub(super) async fn judge(self, lines: &[Line], others: Vec<Attempt>) -> Held<usize> {
        let mut log = self.load.stop().await;
        let failed = log.iter().find(|attempt| attempt.failed());
        ensure(failed.is_none(), || format!("a request failed: {failed:?}"))?;
        let here = |attempt: &Attempt| {
            let frontend = attempt.frontend.as_ref();
            let place = frontend.and_then(|name| name.strip_prefix(&self.cluster));
            place.is_some_and(|place| place.starts_with('/'))
        };
        log.extend(others.into_iter().filter(here));
        within(self.limit, lines, &log)?;
        Ok(log.len())
    }
}

/// What happens, at one time in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ends,
    Limit(u64),
    Begins,
}

/// At every instant no more was worked on than the balancer said it lets through.
fn within(limit: u64, lines: &[Line], log: &[Attempt]) -> Held {
    let limits = lines.iter().filter(|line| {
        line.resource == "balancer" && line.change == Change::Capacity && line.to.is_u64()
    });
    let limits = limits.map(|line| {
        let to = line.to.as_u64().unwrap_or_default();
        (line.at_micros, Event::Limit(to))
    });
    let mut events: Vec<(u64, Event)> = limits.chain(worked(log)).collect();
    events.sort_unstable();
    let (mut limit, mut now) = (limit, 0);
    for (at, event) in events {
        match event {
            Event::Ends => now -= 1,
            Event::Limit(to) => limit = to,
            Event::Begins => now += 1,
        }
        if now > limit {
            return broken(format_args!(
                "at {at} us {now} requests were worked on, and {limit} were in force"
            ));
        }
    }
    Ok(())
}

/// The most that was worked on at once.
fn peak(log: &[Attempt]) -> u64 {
    let mut events: Vec<(u64, Event)> = worked(log).collect();
    events.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, event) in events {
        match event {
            Event::Begins => now += 1,
            _ => now -= 1,
        }
        most = most.max(now);
    }
    most
}

fn worked(log: &[Attempt]) -> impl Iterator<Item = (u64, Event)> {
    let worked = log.iter().filter_map(|attempt| attempt.worked);
    // Whatever ends has begun before.
    worked.flat_map(|(from, to)| [(from, Event::Begins), (to.max(from + 1), Event::Ends)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::production::api::By;

    fn attempt(from: u64, to: u64) -> Attempt {
        Attempt {
            start_micros: from,
            end_micros: to,
            status: Some(200),
            error: None,
            frontend: Some("eu/frontend/1".into()),
            version: Some("1".into()),
            worked: Some((from, to)),
        }
    }

    fn limit(at_micros: u64, to: u64) -> Line {
        Line {
            at_micros,
            cell: "eu".into(),
            instance: "x".into(),
            resource: "balancer".into(),
            change: Change::Capacity,
            from: json!(null),
            to: json!(to),
            by: By::Hand,
        }
    }

    #[test]
    fn a_limit_that_is_told_before_it_is_in_force_is_noticed() {
        let log = [attempt(10, 50), attempt(20, 60), attempt(60, 90)];
        assert_eq!(peak(&log), 2);
        assert_eq!(within(2, &[limit(50, 1)], &log), Ok(()));
        assert_eq!(within(2, &[limit(60, 1)], &log), Ok(()));
        let early = within(2, &[limit(49, 1)], &log);
        assert!(early.is_err(), "two were worked on");
        assert!(within(1, &[], &log).is_err());
        assert_eq!(within(1, &[limit(15, 2)], &log), Ok(()));
    }
}
