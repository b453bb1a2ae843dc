//! The rule that limits unavailable targets per failure domain.

use plugin_sdk::{Domains, SelectRequest, Selection};
use prodspec_model::rollout::RolloutPolicy;

use crate::policy::{Rule, room::Room};

/// Maximum number of targets of one failure domain that are in flight or have drifted. During a rollback, a target
/// that has not got back within the policy's patience no longer counts.
#[derive(Debug, Clone)]
pub struct MaxUnavailable(pub(super) u32);

impl Rule for MaxUnavailable {
    fn of(policy: &RolloutPolicy) -> Option<Self> {
        policy.max_unavailable.map(Self)
    }

    fn applies(_: &SelectRequest) -> bool {
        true
    }

    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        if beneath.now.is_empty() {
            return beneath;
        }
        let mut missing = Missing::new(request.targets.domains());
        let mut room = Room::default();
        for (since, place) in request.targets.census().under_way() {
            if room.takes(request, *since) {
                missing.add(*place);
            }
        }
        let offered = beneath.now.len();
        let selection = beneath.narrowed(|place| {
            let fits = missing.at(place) < self.0;
            if fits {
                missing.add(place);
            }
            fits
        });
        let held = offered - selection.now.len();
        if held == 0 {
            return selection;
        }
        let max = self.0;
        selection.waiting(
            format!("{held} targets are in domains with {max} or more unavailable targets"),
            room.until(),
        )
    }
}

/// The number of unavailable targets in each domain.
struct Missing<'a> {
    domains: &'a Domains,
    of: Vec<u32>,
    /// The number of unavailable targets without a domain, which count in every domain.
    everywhere: u32,
    /// The highest number of a single domain, without `everywhere`.
    most: u32,
}

impl<'a> Missing<'a> {
    fn new(domains: &'a Domains) -> Self {
        Self {
            of: vec![0; domains.names().len()],
            domains,
            everywhere: 0,
            most: 0,
        }
    }

    fn add(&mut self, place: u32) {
        let domains = self.domains.of_target(place);
        if domains.is_empty() {
            self.everywhere += 1;
        }
        for domain in domains {
            let missing = &mut self.of[*domain as usize];
            *missing += 1;
            self.most = self.most.max(*missing);
        }
    }

    /// Returns the highest number of unavailable targets among the domains of the target at `place`.
    fn at(&self, place: u32) -> u32 {
        let each = self.domains.of_target(place).iter();
        let most = each.map(|domain| self.of[*domain as usize]).max();
        self.everywhere + most.unwrap_or(self.most)
    }
}
