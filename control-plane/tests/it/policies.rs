//! The policies of the page "Choose a policy" can be read, and complete a rollout.

use std::{sync::Arc, time::Duration};

use control_plane::{
    prelude::*,
    strategist::{policy, preview::preview},
};
use plugin_sdk::testing::{select_request, target};

const PAGE: &str = include_str!("../../../docs/choose-a-policy.md");

/// The texts of the policies on the page.
fn texts() -> Vec<&'static str> {
    let blocks = PAGE.split("```yaml\n").skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

#[test]
fn each_policy_of_the_page_is_short_and_completes_a_rollout() {
    let file = YamlFile::new("policy.yaml");
    assert_eq!(texts().len(), 10);
    for text in texts() {
        assert!(text.lines().count() <= 10, "{text}");
        let reading = file.parse(text.as_bytes()).unwrap();
        let policy: RolloutPolicy = reading.documents[0].read().unwrap();
        let targets = (0..40).map(|at| {
            let domain = ["asia", "eu", "us", "zone-a"][at % 4];
            target(&format!("job/{at:02}"), &[domain])
        });
        let mut request = select_request(targets);
        request.policy = Arc::new(policy);
        let schedule = preview(&policy::standard(), request, Duration::from_secs(60));
        let selected = schedule
            .unwrap()
            .steps
            .into_iter()
            .map(|it| it.selected.len());
        assert_eq!(selected.sum::<usize>(), 40, "{text}");
    }
}
