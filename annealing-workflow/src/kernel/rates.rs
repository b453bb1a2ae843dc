//! How far rates are used up, in the store, so that they hold over owners (R32).
//!
//! A fast or wide rate would be written with each attempt. It is written some way ahead instead, and again when it has come so
//! far. The next owner takes what is written for used up.

use std::{collections::BTreeMap, time::Duration};

use control_plane_runtime::StoredWait;
use plugin_sdk::{Claim, Key, Mono, Now, Quota};

use super::{
    Bug, CommitNo, Lane,
    event::{Effects, Record},
};
use crate::record::RateRecord;

/// The least time by which a rate is written ahead that has less time between two claims.
const AHEAD: Duration = Duration::from_secs(1);
/// A rate is written ahead by one in so many of its burst.
const PART: u32 = 16;
/// Number of written rates from which those that are free are removed.
const MANY: usize = 64;

/// The rates in the store.
#[derive(Debug, Default)]
pub(super) struct WrittenRates {
    /// The arrival time that is written for each key, and the commit with it.
    arrivals: BTreeMap<Key, (Mono, CommitNo)>,
    /// Number of keys at which free ones are removed next.
    many: usize,
}

impl WrittenRates {
    /// Removes the rates that are free, if there are many.
    fn tidy(&mut self, now: Mono) -> Vec<Key> {
        if self.arrivals.len() < self.many.max(MANY) {
            return Vec::new();
        }
        let free = self
            .arrivals
            .extract_if(.., |_, (arrival, _)| *arrival <= now);
        let free = free.map(|(key, _)| key).collect();
        self.many = self.arrivals.len() * 2;
        free
    }
}

impl Lane {
    /// Goes on with stored rates. Those that are free are removed.
    pub(super) fn restore_rates(&mut self, now: Now, stored: Vec<RateRecord>, out: &mut Effects) {
        for record in stored {
            let key = Key::from(record.key.as_str());
            let arrival = record.used_up_to.ends_at(now);
            if arrival <= now.mono {
                out.records.push(Record::Rate(key, None));
            } else if !self.planted(Bug::CountInLayer) {
                self.claims.rates.restore(&key, arrival);
                self.rates.arrivals.insert(key, (arrival, self.durable));
            }
        }
    }

    /// Writes how far the rates among these claims are used up, which were just taken. Returns whether what has taken them
    /// has to wait until that is durable.
    pub(super) fn write_rates(&mut self, now: Now, taken: &[Claim], out: &mut Effects) -> bool {
        let mut waits = false;
        for claim in taken {
            let Claim::Rate(key, quota) = claim else {
                continue;
            };
            let Some(arrival) = self.claims.rates.arrival(key) else {
                continue;
            };
            if let Some((written, commit)) = self.rates.arrivals.get(key)
                && *written >= arrival
            {
                waits |= *commit > self.durable;
                continue;
            }
            let arrival = arrival + ahead(quota);
            let used_up_to = StoredWait::new(now, arrival.since(now.mono));
            let free = self.rates.tidy(now.mono).into_iter();
            out.records.extend(free.map(|key| Record::Rate(key, None)));
            let of = key.0.to_string();
            let record = Box::new(RateRecord {
                key: of,
                used_up_to,
            });
            out.records.push(Record::Rate(key.clone(), Some(record)));
            let commit = CommitNo(self.commit.0 + 1);
            self.rates.arrivals.insert(key.clone(), (arrival, commit));
            waits = true;
        }
        waits
    }
}

/// The time by which a rate is written ahead.
fn ahead(quota: &Quota) -> Duration {
    let part = quota
        .every
        .saturating_mul(quota.burst.saturating_sub(1) / PART);
    let least = match quota.every < AHEAD {
        true => AHEAD,
        false => Duration::ZERO,
    };
    least.max(part)
}
