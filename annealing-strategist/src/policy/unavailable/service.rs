//! The rule that limits unavailable targets per failure domain.

use plugin_sdk::{Progress, SelectRequest, Selection, Target};
use prodspec_model::rollout::RolloutPolicy;

use crate::policy::{Rule, intern::Interned, room::Room};

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
        let mut missing = Missing::default();
        let mut room = Room::default();
        for target in request.targets.iter() {
            match target.progress {
                Progress::InFlight { since } | Progress::Drifted { since }
                    if room.takes(request, since) =>
                {
                    missing.add(target);
                }
                _ => {}
            }
        }
        let offered = beneath.now.len();
        let selection = beneath.narrowed(|place| {
            let Some(target) = request.targets.get(place as usize) else {
                return false;
            };
            let fits = missing.at(target) < self.0;
            if fits {
                missing.add(target);
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
#[derive(Default)]
struct Missing<'a> {
    interned: Interned<'a>,
    domains: Vec<u32>,
    /// The number of unavailable targets without a domain, which count in every domain.
    everywhere: u32,
    /// The highest number of a single domain, without `everywhere`.
    most: u32,
}

impl<'a> Missing<'a> {
    fn add(&mut self, target: &'a Target) {
        if target.domains.is_empty() {
            self.everywhere += 1;
        }
        for name in target.domains.iter() {
            let missing = Self::of(&mut self.interned, &mut self.domains, name);
            *missing += 1;
            self.most = self.most.max(*missing);
        }
    }

    /// Returns the highest number of unavailable targets among the domains of `target`.
    fn at(&mut self, target: &'a Target) -> u32 {
        let each = target.domains.iter();
        let most = each
            .map(|name| *Self::of(&mut self.interned, &mut self.domains, name))
            .max();
        self.everywhere + most.unwrap_or(self.most)
    }

    fn of<'d>(
        interned: &mut Interned<'a>,
        domains: &'d mut Vec<u32>,
        name: &'a std::sync::Arc<str>,
    ) -> &'d mut u32 {
        let number = interned.number(name);
        if domains.len() <= number {
            domains.resize(number + 1, 0);
        }
        &mut domains[number]
    }
}
