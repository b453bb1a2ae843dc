//! R18: the laws of selection, for every layer and for the standard stack.

use std::sync::Arc;

use futures::executor::block_on;
use jiff::Timestamp;
use plugin_sdk::{
    Direction, Finding, Health, Judgement, Progress, SelectRequest, Selection, Target, conformance,
    service::AllTargets,
    testing::{NOW, select_request, target},
};
use prodspec_model::rollout::{Amount, Canary as CanaryPart, RolloutPolicy, Wave};
use proptest::prelude::*;
use tower::Layer;

use super::{MINUTE, minutes, selected};
use crate::policy::{
    BakeLayer, CanaryLayer, HoldLayer, MaxInFlightLayer, MaxUnavailableLayer,
    OneDomainAtATimeLayer, WavesLayer, standard,
};

prop_compose! {
    fn any_target()(domains in prop::collection::vec("[abc]", 0..3), kind in 0..6u8, minute in 0..60u64, late in 0..4u8) -> (Vec<String>, Progress, bool) {
        let progress = match kind {
            0 => Progress::InFlight { since: NOW - minutes(minute) },
            1 => Progress::Updated { at: NOW - minutes(minute) },
            2 => Progress::Drifted { since: NOW - minutes(minute) },
            _ => Progress::Waiting,
        };
        (domains, progress, late == 0)
    }
}

prop_compose! {
    fn policies()(
        domains in prop::sample::subsequence(vec!["c", "a", "z"], 0..3),
        canary in prop::option::of((1..4u32, 0..90u64)),
        waves in prop::sample::subsequence(vec![1u8, 5, 30, 60, 100], 0..4),
        bakes in (0..90u64, 0..90u64),
        limits in (prop::option::of(1..4u32), prop::option::of(1..3u32)),
    ) -> RolloutPolicy {
        let wave = |percent| Wave { upto: Amount::Percent(percent), bake_secs: bakes.1 * 60 };
        RolloutPolicy {
            domains: domains.into_iter().map(Into::into).collect(),
            canary: canary.map(|(count, minutes)| CanaryPart { count, bake_secs: minutes * 60 }),
            waves: waves.into_iter().map(wave).collect(),
            bake_secs: bakes.0 * 60,
            max_in_flight: limits.0,
            max_unavailable: limits.1,
            ..RolloutPolicy::default()
        }
    }
}

prop_compose! {
    fn requests()(
        targets in prop::collection::vec(any_target(), 0..12),
        policy in policies(),
        healthy in prop::option::of(any::<bool>()),
        back: bool,
    ) -> SelectRequest {
        let targets = targets.into_iter().enumerate().map(|(no, (domains, progress, late))| {
            let domains: Vec<&str> = domains.iter().map(|domain| &**domain).collect();
            Target { progress, late, ..target(&format!("job/{no:02}"), &domains) }
        });
        let finding = |judgement| Finding::new(judgement, "").validator("test");
        let judgement = |healthy| if healthy { Judgement::Healthy } else { Judgement::Unknown };
        let direction = if back { Direction::Back } else { Direction::Forward };
        let mut request = select_request(targets).policy(policy).direction(direction);
        request.health = healthy.map(|healthy| Health::found(NOW, finding(judgement(healthy))));
        request
    }
}

proptest! {
    #[test]
    fn r18_every_layer_chooses_from_the_selection_beneath_it(request in requests(), hold: bool) {
        let mut request = request;
        if hold {
            Arc::make_mut(&mut request.policy).hold = Some("a hold".into());
        }
        macro_rules! laws {
            ($($layer:expr),* $(,)?) => { $(
                block_on(conformance::select_layer($layer, [request.clone()]))?;
            )* };
        }
        laws![
            OneDomainAtATimeLayer::by_policy(),
            CanaryLayer::by_policy(),
            WavesLayer::by_policy(),
            BakeLayer::by_policy(),
            MaxInFlightLayer::by_policy(),
            MaxUnavailableLayer::by_policy(),
            HoldLayer::by_policy(),
            OneDomainAtATimeLayer::new(["b", "a"]).bake(MINUTE),
            CanaryLayer::new(2).bake(MINUTE),
            WavesLayer::new([Amount::Count(2), Amount::Percent(50)]).bake(MINUTE),
            BakeLayer::new(MINUTE),
            MaxInFlightLayer::new(2),
            MaxUnavailableLayer::new(1),
            HoldLayer::new("a hold"),
        ];
    }

    #[test]
    fn r18_late_target_changes_nothing_for_the_others(request in requests()) {
        let mut request = request;
        let policy = Arc::make_mut(&mut request.policy);
        // Limits count all that is in flight, and the end waits for all.
        (policy.max_in_flight, policy.max_unavailable) = (None, None);
        let mut without = request.clone();
        without.targets.edit().retain(|target| !target.late);
        let chosen = |request: &SelectRequest, selection: &Selection| {
            let chosen = selection.now.iter().map(|place| &request.targets[*place as usize]);
            let chosen = chosen.filter(|target| !target.late);
            chosen.map(|target| target.asset.clone()).collect::<Vec<_>>()
        };
        macro_rules! laws {
            ($($layer:expr),* $(,)?) => { $(
                let stack = $layer.layer(AllTargets);
                let (with, alone) = (selected(&stack, &request), selected(&stack, &without));
                prop_assert_eq!(chosen(&request, &with), chosen(&without, &alone));
            )* };
        }
        laws![
            OneDomainAtATimeLayer::by_policy(),
            CanaryLayer::by_policy(),
            WavesLayer::by_policy(),
        ];
    }

    #[test]
    fn r18_every_layer_lets_every_target_through_in_the_end(request in requests()) {
        macro_rules! laws {
            ($($layer:expr),* $(,)?) => { $(
                block_on(conformance::select(&$layer.layer(AllTargets), [request.clone()], MINUTE))?;
            )* };
        }
        laws![
            OneDomainAtATimeLayer::by_policy(),
            CanaryLayer::by_policy(),
            WavesLayer::by_policy(),
            BakeLayer::by_policy(),
            MaxInFlightLayer::by_policy(),
            MaxUnavailableLayer::by_policy(),
        ];
    }

    #[test]
    fn r18_the_standard_stack_selects_every_target_in_the_end(request in requests()) {
        block_on(conformance::select(&standard(), [request], MINUTE))?;
    }

    #[test]
    fn r18_limits_are_kept(request in requests()) {
        let selection = selected(&standard(), &request);
        let count = |is: &dyn Fn(&Progress) -> bool, of: Option<&str>| {
            let targets = (0..).zip(request.targets.iter());
            let here = |target: &Target| of.is_none_or(|domain| {
                target.domains.is_empty() || target.domains.iter().any(|at| **at == *domain)
            });
            targets.filter(|(place, target)| {
                here(target) && (is(&target.progress) || selection.now.contains(place))
            }).count()
        };
        if selection.now.is_empty() {
            return Ok(());
        }
        // On the way back, a target counts against limits for ten minutes only.
        let takes = |since: Timestamp| {
            request.direction == Direction::Forward || since + minutes(10) > request.now
        };
        let flies = |progress: &Progress| {
            matches!(progress, Progress::InFlight { since } if takes(*since))
        };
        if let Some(max) = request.policy.max_in_flight {
            prop_assert!(count(&flies, None) <= max as usize);
        }
        let misses = |progress: &Progress| {
            flies(progress) || matches!(progress, Progress::Drifted { since } if takes(*since))
        };
        if let Some(max) = request.policy.max_unavailable {
            for &place in &selection.now {
                for domain in request.targets[place as usize].domains.iter() {
                    prop_assert!(count(&misses, Some(domain)) <= max as usize);
                }
            }
        }
    }
}
