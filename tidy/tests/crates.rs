//! The one-way rule, applied to the crates of this workspace.

use tidy::{all_clear, circles, crates, front_doors, tree::Tree};

#[test]
fn crate_dependencies_follow_the_one_way_rule() {
    let members = crates::members().unwrap();
    let plane = members.iter().find(|member| member.name == "control-plane");
    let known = plane.is_some_and(|plane| plane.built_from.contains(&"plugin-sdk".to_owned()));
    assert!(known, "cargo metadata reports no dependencies: {members:?}");
    all_clear(&crates::edges(&members));
}

#[test]
fn folders_and_packages_agree() {
    let members = crates::members().unwrap();
    all_clear(&crates::folders(&members));
    let moved = crates::Member {
        name: "control-plane".into(),
        folder: "control-plane/plane".into(),
        ..crates::Member::default()
    };
    assert_eq!(crates::folders(&[moved]).len(), 1);
}

#[test]
fn modules_of_a_folder_do_not_import_each_other() {
    let tree = Tree::read().unwrap();
    let members = crates::members().unwrap();
    let folders: Vec<_> = members.into_iter().map(|member| member.folder).collect();
    all_clear(&circles::check(&tree, &folders));
}

#[test]
fn databases_grpc_http_and_kubernetes_stay_out_of_model_sdk_and_engines() {
    let tree = Tree::read().unwrap();
    let lock = std::fs::read_to_string(tree.root.join("Cargo.lock")).unwrap();
    all_clear(&crates::heavy(&crates::members().unwrap(), &lock).unwrap());
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    let tree = Tree::read().unwrap();
    let members = crates::members().unwrap();
    let without = members.iter().filter_map(|member| {
        let manifest = format!("{}/Cargo.toml", member.folder);
        let text = tree.text(&manifest).unwrap_or_default();
        let takes = text.contains("[lints]\nworkspace = true");
        (!takes).then(|| format!("{manifest}: add `[lints]` with `workspace = true`"))
    });
    all_clear(&without.collect::<Vec<_>>());
}

#[test]
fn libraries_leave_tokio_features_of_programs_and_tests_to_their_users() {
    let members = crates::members().unwrap();
    let reads = members.iter().any(|member| !member.tokio.is_empty());
    assert!(reads, "cargo metadata reports no features: {members:?}");
    all_clear(&crates::tokio_features(&members));
    let hands_on = crates::Member {
        name: "control-plane".into(),
        tokio: vec!["rt".into(), "test-util".into()],
        ..crates::Member::default()
    };
    assert_eq!(crates::tokio_features(&[hands_on]).len(), 1);
}

#[test]
fn published_crates_have_metadata_and_a_readme_that_is_compiled() {
    let tree = Tree::read().unwrap();
    let members = crates::members().unwrap();
    all_clear(&front_doors::check(&members, &tree));
    let missing = crates::Member {
        folder: "missing".into(),
        published: true,
        ..crates::Member::default()
    };
    assert_eq!(front_doors::check(&[missing], &tree).len(), 9);
}
