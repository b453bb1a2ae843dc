//! The rule that updates one failure domain after the other.

use std::time::Duration;

use plugin_sdk::{SelectRequest, Selection};
use prodspec_model::rollout::RolloutPolicy;

use crate::policy::{Gate, Rule, gate::Tally, intern::Interned};

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
        let domains = Domains::of(request);
        let turns = self.turns(&domains);
        let shut = (0..).zip(&turns).find_map(|(turn, (_, number))| {
            match domains.tallies[*number].gate(request, self.bake) {
                Gate::Shut(wait) => Some((turn, wait)),
                Gate::Open => None,
            }
        });
        let Some((turn, wait)) = shut else {
            return beneath;
        };
        let (name, current): (Option<&str>, usize) = turns[turn];
        let mut may = vec![false; domains.tallies.len()];
        for (_, number) in &turns[..=turn] {
            may[*number] = true;
        }
        let mut selection = beneath
            .narrowed(|place| {
                let number = domains.of_places.get(place as usize);
                number.is_some_and(|number| may[*number as usize])
            })
            .at_stage(name.unwrap_or("the rest"));
        selection.validate = domains.started(request, current);
        let Some((next, _)) = turns.get(turn + 1) else {
            return selection;
        };
        let (name, next) = (name.unwrap_or("the rest"), next.unwrap_or("the rest"));
        selection.waiting(format!("{name} before {next}: {}", wait.why), wait.until)
    }
}

impl OneDomainAtATime {
    /// Returns the domains in the order of their turns, each with its name and number. `None`: the targets without a
    /// domain.
    fn turns<'a>(&self, domains: &Domains<'a>) -> Vec<(Option<&'a str>, usize)> {
        let listed = |name: &str| self.order.iter().position(|listed| listed == name);
        let rank = |name: &str| listed(name).unwrap_or(self.order.len());
        let mut named: Vec<_> = domains
            .interned
            .by_name()
            .iter()
            .map(|(name, number)| (rank(name), Some(*name), *number as usize + 1))
            .collect();
        named.sort_by_key(|(rank, name, _)| (*rank, *name));
        let named = named.into_iter().map(|(_, name, number)| (name, number));
        named
            .chain([(None, NONE)])
            .filter(|(_, number)| !domains.tallies[*number].is_empty())
            .collect()
    }
}

/// The number for targets without a domain.
const NONE: usize = 0;

/// The targets by domain. A domain has its interned number plus one; targets without a domain have [`NONE`].
struct Domains<'a> {
    interned: Interned<'a>,
    of_places: Vec<u32>,
    tallies: Vec<Tally>,
}

impl<'a> Domains<'a> {
    fn of(request: &'a SelectRequest) -> Self {
        let mut interned = Interned::default();
        let mut tallies = vec![Tally::default()];
        let of_places = request.targets.iter().map(|target| {
            let number = match target.domains.first() {
                Some(name) => interned.number(name) + 1,
                None => NONE,
            };
            if number == tallies.len() {
                tallies.push(Tally::default());
            }
            tallies[number].add(target);
            number as u32
        });
        Self {
            of_places: of_places.collect(),
            interned,
            tallies,
        }
    }

    fn started(&self, request: &SelectRequest, domain: usize) -> Vec<u32> {
        let places = (0..).zip(&self.of_places).zip(request.targets.iter());
        let here = places.filter(|((_, number), _)| **number as usize == domain);
        let started = here.filter(|(_, target)| !target.is_waiting());
        started.map(|((place, _), _)| place).collect()
    }
}
