//! Parts that are missing or do not fit together are refused by `build`.

use control_plane::prelude::*;

use crate::world::{Group, Model, Production, Service, Text, plane};

fn parts() -> control_plane::ControlPlaneBuilder {
    plane(&Production::default()).source(Text::new("services: {}"))
}

#[test]
fn a_control_plane_is_built_in_a_runtime() {
    let refused = parts().store(MemoryStore::new()).build().unwrap_err();
    assert!(matches!(refused, BuildError::NoRuntime), "{refused}");
}

#[tokio::test]
async fn missing_parts_are_named() {
    assert!(matches!(parts().build(), Err(BuildError::NoStore)));
    let nameless = ControlPlane::builder("No Name").store(MemoryStore::new());
    let refused = nameless.build().unwrap_err();
    assert!(matches!(refused, BuildError::Partition(_)), "{refused}");
    assert!(refused.to_string().contains("No Name"), "{refused}");
    let sourceless = plane(&Production::default()).store(MemoryStore::new());
    assert!(matches!(sourceless.build(), Err(BuildError::Pipeline(_))));
    let without_plugin = ControlPlane::builder("world")
        .store(MemoryStore::new())
        .source(Text::new("services: {}"))
        .generator(Model)
        .asset_type(AssetType::<Service>::new());
    let refused = without_plugin.build().unwrap_err();
    assert!(
        matches!(&refused, BuildError::NoPlugin(name) if name == "world.v1.Service"),
        "{refused}"
    );
}

#[tokio::test]
async fn r7_two_checks_of_one_name_are_refused() {
    let service = || {
        tower::service_fn(
            |request: CheckRequest| async move { Ok::<_, BoxError>(request.proceed()) },
        )
    };
    let two = parts().store(MemoryStore::new()).checks(|base| {
        ServiceBuilder::new()
            .layer(CheckLayer::new(service()))
            .layer(CheckLayer::new(service()))
            .service(base)
    });
    let Err(BuildError::Enforcer(refused)) = two.build() else {
        panic!("two checks named `service` were not refused")
    };
    let refused = refused.to_string();
    assert!(
        refused.contains("`service`") && refused.contains(".named("),
        "{refused}"
    );
}

#[tokio::test]
async fn a_type_is_enforced_or_modelled_only() {
    let both = parts()
        .store(MemoryStore::new())
        .asset_plugin::<Group>(Production::default());
    let refused = both.build().unwrap_err();
    assert!(
        matches!(&refused, BuildError::ModelledOnly(name) if name == "world.v1.Group"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_invalid_policy_is_refused_with_its_fields() {
    let manifest = "services: {}\npolicies: {slow: {hold: ' ', bake_secs: 99999999}}\n";
    let plane = plane(&Production::default())
        .store(MemoryStore::new())
        .source(Text::new(manifest))
        .validators(validators::standard());
    let checked = plane.build().unwrap().handle().dry_run(&[]).await;
    let refused = checked.unwrap_err().to_string();
    for field in [
        "payload.hold: must not be blank",
        "payload.bake_secs: 99999999 seconds is too long",
    ] {
        assert!(refused.contains(field), "{field}: {refused}");
    }
}

/// The policy that `docs/rollouts.md` shows is read and valid as it stands there.
#[tokio::test]
async fn the_documented_policy_is_accepted() {
    let page = include_str!("../../../docs/rollouts.md");
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    let (policy, _) = rest.split_once("```").unwrap();
    let indented: String = policy.lines().map(|line| format!("    {line}\n")).collect();
    let manifest = format!("services: {{}}\npolicies:\n  slow:\n{indented}");
    let plane = plane(&Production::default())
        .store(MemoryStore::new())
        .source(Text::new(&manifest))
        .validators(validators::standard());
    let found = plane.build().unwrap().handle().dry_run(&[]).await.unwrap();
    assert_eq!(found.changes.len(), 1, "{found:?}");
}
