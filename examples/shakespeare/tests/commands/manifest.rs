//! Hostile manifests: each is one clear error, and changes nothing.

use shakespeare::model::Manifest;

use crate::shell;

fn alias_bomb() -> String {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..40 {
        let aliases = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    bomb + "...\n"
}

#[test]
fn hostile_manifest_is_one_clear_error_with_its_place_and_changes_nothing() {
    let good = Manifest::DEFAULT;
    let town = shell();
    let edited = |from: &str, to: &str| good.replacen(from, to, 1);
    for (what, manifest, says) in [
        (
            "truncated",
            good[..good.find("capacity_per").unwrap()].to_owned(),
            "manifest.yaml:29:1: the file may be cut off",
        ),
        (
            "empty",
            String::new(),
            "manifest.yaml:1:1: the file may be cut off",
        ),
        (
            "a duplicate key",
            edited("  us:", "  eu:"),
            "manifest.yaml:32:3: the key `eu` appears twice",
        ),
        (
            "over-long",
            format!("#{}\n{good}", "x".repeat(1 << 20)),
            "1048576 are allowed",
        ),
        (
            "deeply nested",
            format!("{}\n...\n", "[".repeat(200_000)),
            "nested deeper than 64 levels",
        ),
        (
            "an alias bomb",
            alias_bomb(),
            "expand to more than 16777216 bytes",
        ),
        (
            "wrongly typed",
            edited("replicas: 2", "replicas: two"),
            "manifest.yaml#0:29:15: clusters.eu.replicas: invalid type: string \"two\", expected u32",
        ),
        (
            "not a number",
            edited("replicas: 2", "replicas: .nan"),
            "manifest.yaml:29:15: .nan is not a finite number",
        ),
        (
            "an unknown field",
            edited("schema: 1", "schema: 1\nschemas: 2"),
            "manifest.yaml#0:8:1: schemas: unknown field `schemas`",
        ),
    ] {
        let said = town.check(&manifest);
        assert!(!said.good, "{what}: {}", said.text);
        assert!(said.text.contains(says), "{what}: {}", said.text);
        assert_eq!(said.text.lines().count(), 2, "{what}: {}", said.text);
    }
    assert!(town.check(good).good);
    assert!(!town.state().exists(), "`check` creates no state");
}

const CANARY: &str = "canary: {count: 1, bake: 10}";

/// Replacements in the section `rollout`, and the error that each must give: old text, new text, error.
const HOSTILE_ROLLOUTS: &[(&str, &str, &str)] = &[
    ("rollout:", "rollouts:", "18:1: rollouts: unknown field"),
    (
        "bake: 5",
        "hold: wait\n  emergency: {who: jane, why: CVE}",
        "rollout: payload.hold: a hold also stops an emergency",
    ),
    (CANARY, "canary: 1", "22:11: rollout.canary: invalid type"),
    (
        CANARY,
        "canary: {}",
        "22:11: rollout.canary: missing field `count`",
    ),
    (
        CANARY,
        "canary: {count: 0}",
        "22:19: rollout.canary.count: 0: no asset would ever be updated",
    ),
    (
        CANARY,
        "canary: {count: -1}",
        "22:19: rollout.canary.count: invalid value: integer `-1`, expected u32",
    ),
    (
        CANARY,
        "canary: {count: 1, bake: 1e9}",
        "22:28: rollout.canary.bake: invalid type",
    ),
    (
        CANARY,
        "canary: {count: 1, bake: 18446744073709551615}",
        "22:28: rollout.canary.bake: 18446744073709551615: use at most 1209600 seconds",
    ),
    (
        CANARY,
        "canary: {count: 1, count: 2}",
        "22:22: the key `count` appears twice",
    ),
    (
        "[eu, us]",
        "[eu, uk]",
        "20:17: rollout.domains[1]: there is no cluster `uk`",
    ),
    (
        "[eu, us]",
        "[eu, eu]",
        "20:17: rollout.domains[1]: `eu` is listed twice",
    ),
    ("[eu, us]", "eu", "20:12: rollout.domains: invalid type"),
    ("bake: 5", "bake: soon", "24:9: rollout.bake: invalid type"),
    ("bake: 5", "bakes: 5", "24:3: rollout.bakes: unknown field"),
    (
        "bake: 5",
        "max_in_flight: 0",
        "24:18: rollout.max_in_flight: 0: no asset would ever be updated",
    ),
    (
        "bake: 5",
        "max_unavailable: 0",
        "24:20: rollout.max_unavailable: 0: no asset would ever be updated",
    ),
    (
        "bake: 5",
        "waves: [{percent: 101}]",
        "24:21: rollout.waves[0].percent: 101: use at most 100 percent",
    ),
    (
        "bake: 5",
        "waves: [{count: 2}, {count: 2}]",
        "24:31: rollout.waves[1].count: each wave must be at least 1, and larger",
    ),
    (
        "bake: 5",
        "waves: [{count: 2, percent: 5}]",
        "24:11: rollout.waves[0]: give exactly one of `count` and `percent`",
    ),
    (
        "bake: 5",
        "hold: \"\"",
        "24:9: rollout.hold: the text is empty",
    ),
    ("bake: 5", "hold: true", "24:9: rollout.hold: invalid type"),
    (
        "bake: 5",
        "hold: \"a\\nb\"",
        "24:9: rollout.hold: use one line",
    ),
    (
        "bake: 5",
        "on_unhealthy: ignore",
        "24:17: rollout.on_unhealthy: unknown variant `ignore`",
    ),
    (
        "bake: 5",
        "emergency: {who: jane}",
        "24:14: rollout.emergency: missing field `why`",
    ),
    (
        "bake: 5",
        "emergency: {who: \" \", why: CVE}",
        "24:20: rollout.emergency.who: the text is empty",
    ),
];

#[test]
fn hostile_rollout_section_is_one_clear_error_with_line_column_and_field() {
    let town = shell();
    let long = format!("bake: 5\n  hold: {}", "x".repeat(501));
    let long = [("bake: 5", &*long, "25:9: rollout.hold: 501 bytes")];
    for (from, to, says) in HOSTILE_ROLLOUTS.iter().chain(&long) {
        let said = town.check(&Manifest::DEFAULT.replacen(from, to, 1));
        assert!(!said.good, "{to}: {}", said.text);
        assert!(said.text.contains(says), "{to}: {}", said.text);
        assert_eq!(said.text.lines().count(), 2, "{to}: {}", said.text);
    }
    let without = Manifest::DEFAULT.replacen("rollout:", "# ", 1);
    let said = town.check(&without);
    assert!(
        !said.good,
        "a manifest without a rollout section is refused: {}",
        said.text
    );
    assert!(!town.state().exists(), "`check` creates no state");
}
