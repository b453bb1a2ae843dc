//! The rule that updates one failure domain after the other.

use std::time::Duration;

use plugin_sdk::{Census, Domains, SelectRequest, Selection};
use prodspec_model::rollout::RolloutPolicy;

use crate::policy::{Gate, Rule, gate::gate_of};

/// The order of failure domains, and the time for which each one bakes.
#[derive(Debug, Clone)]
pub struct OneDomainAtATime {
    pub(super) order: Vec<String>,
    pub(super) bake: Duration,
}

impl Rule for OneDomainAtATime {
    fn of(policy: &RolloutPolicy) -> Option<Self> {
        (!policy.domains.is_empty()).then(|| Self {
            order: policy.domains.clone(),
            bake: Duration::from_secs(policy.bake_secs),
        })
    }

    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        let (domains, census) = (request.targets.domains(), request.targets.census());
        let turns = self.turns(domains, census);
        let shut = (0..).zip(&turns).find_map(|(turn, domain)| {
            match gate_of(census.in_domain(*domain), request, self.bake) {
                Gate::Shut(wait) => Some((turn, wait)),
                Gate::Open => None,
            }
        });
        let Some((turn, wait)) = shut else {
            return beneath;
        };
        let mut later = vec![false; domains.names().len() + 1];
        let number = |domain: Option<u32>| domain.map_or(domains.names().len(), |it| it as usize);
        for domain in &turns[turn + 1..] {
            later[number(*domain)] = true;
        }
        let name = |domain: Option<u32>| {
            let name = domain.and_then(|domain| domains.names().get(domain as usize));
            name.map_or("the rest", |name| &**name)
        };
        let current = turns[turn];
        let mut selection = beneath
            .narrowed(|place| !later[number(domains.first_of(place))])
            .at_stage(name(current));
        let started = census.started().iter().map(|(_, place)| *place);
        selection.validate = started
            .filter(|place| domains.first_of(*place) == current)
            .filter(|place| !request.targets[*place as usize].late)
            .collect();
        let Some(next) = turns.get(turn + 1) else {
            return selection;
        };
        let (current, next) = (name(current), name(*next));
        selection.waiting(format!("{current} before {next}: {}", wait.why), wait.until)
    }
}

impl OneDomainAtATime {
    /// Returns the numbers of the domains in the order of their turns. `None`: the targets without a domain.
    fn turns(&self, domains: &Domains, census: &Census) -> Vec<Option<u32>> {
        let listed = |name: &str| self.order.iter().position(|listed| listed == name);
        let rank = |name: &str| listed(name).unwrap_or(self.order.len());
        // Domains of the same rank stay in the order of their names.
        let names = (0..).zip(domains.names());
        let mut turns: Vec<(usize, u32)> = names.map(|(no, name)| (rank(name), no)).collect();
        turns.sort_unstable();
        let turns = turns.into_iter().map(|(_, number)| Some(number));
        let turns = turns.chain([None]);
        turns
            .filter(|it| !census.in_domain(*it).is_empty())
            .collect()
    }
}
