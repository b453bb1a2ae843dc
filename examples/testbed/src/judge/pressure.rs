//! Keeps a cluster full, and judges whether its balancer really keeps the limit that it reports.
//!
//! The evidence comes from the frontends, which report from when to when they had each request. A request that a
//! frontend works on is in flight at the balancer, whatever the balancer reports.

use std::time::Duration;

use super::{
    broken::{Held, broken, ensure, until},
    observe,
};
use crate::{
    place::Place,
    production::{
        api::{Change, Line},
        load::{Attempt, Load},
    },
};

/// Working time of each request that fills a cluster.
const WORK: Duration = Duration::from_millis(200);

/// A running load that keeps a cluster's balancer full.
#[derive(Debug)]
pub struct Pressure {
    cluster: String,
    /// Maximum number of requests in flight at the beginning.
    limit: u64,
    load: Load,
}

impl Pressure {
    /// Fills a cluster until more than `shrunk` requests are in flight there.
    ///
    /// # Errors
    /// When the cluster has no balancer, or does not become full.
    pub async fn fill(place: &Place, cluster: &str, shrunk: u32) -> Held<Self> {
        let cell = observe::cell(place, cluster).await?;
        let balancer = observe::balancer(&cell).await?;
        let limit = balancer.max_capacity_in_force;
        let load = Load::slow(balancer.address, limit as usize, WORK);
        until("the cluster is full", async || {
            let most = peak(&load.so_far());
            ensure(most > u64::from(shrunk), || {
                format!("{most} in flight at {cluster}, {limit} at most")
            })
        })
        .await?;
        Ok(Self {
            cluster: cluster.to_owned(),
            limit: limit.into(),
            load,
        })
    }

    /// Stops the load. Expects that none of its requests failed, and that the number of requests at work never exceeded
    /// the limit in `lines`, which are from the cluster's journal. Requests in `others` that the cluster served are
    /// counted too. Returns the number of requests checked.
    ///
    /// # Errors
    /// When a request failed, or too many were at work.
    pub async fn judge(self, lines: &[Line], others: Vec<Attempt>) -> Held<usize> {
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

/// Events in the order in which they count when they have the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ends,
    Limit(u64),
    Begins,
}

/// Expects that at every instant the number of requests at work was at most the limit in force.
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
                "at {at} us frontends worked on {now} requests, and the limit in force was {limit}"
            ));
        }
    }
    Ok(())
}

/// Returns the maximum number of requests at work at the same time.
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
    // A request ends at least 1 us after its beginning, so that its events are in order.
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
    fn limit_reported_before_it_is_in_force_is_noticed() {
        let log = [attempt(10, 50), attempt(20, 60), attempt(60, 90)];
        assert_eq!(peak(&log), 2);
        assert_eq!(within(2, &[limit(50, 1)], &log), Ok(()));
        assert_eq!(within(2, &[limit(60, 1)], &log), Ok(()));
        let early = within(2, &[limit(49, 1)], &log);
        assert!(early.is_err(), "two requests were still at work");
        assert!(within(1, &[], &log).is_err());
        assert_eq!(within(1, &[limit(15, 2)], &log), Ok(()));
    }
}
