//! R34, R48: an edit is one commit on the expected one, pushed once.

use std::fs;

use plugin_sdk::{
    ChangeId, EditError, EditableSource, FieldEdit, Proposal, SourceChange, SourceOfTruth,
    conformance,
};
use plugins_git::Git;
use prodspec_gen::{format::Yaml, tree::TreeSource};

use super::origin::Origin;

const EU: &str = "# Europe.\nreplicas: 3 # measured\n";

/// A bare repository that is pushed to, and one with a working directory from which people push.
struct World {
    person: Origin,
    shared: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let person = Origin::of(&[
            ("configs/eu.yaml", EU),
            ("configs/us.yaml", "replicas: 2\n"),
        ]);
        let shared = tempfile::tempdir().unwrap();
        let world = Self { person, shared };
        world
            .person
            .git(&["clone", "--quiet", "--bare", ".", &world.url()]);
        world
    }

    fn url(&self) -> String {
        self.shared
            .path()
            .join("shared.git")
            .to_str()
            .unwrap()
            .to_owned()
    }

    fn source(&self) -> TreeSource<Git, Yaml> {
        let git = Git::new(&self.url()).branch("main");
        git.committer("the plane", "plane@example.com")
            .yaml()
            .named("clusters")
    }

    /// Runs Git on the shared repository.
    fn git(&self, arguments: &[&str]) -> String {
        let url = self.url();
        let all = [&["--git-dir", &url], arguments].concat();
        self.person.git(&all)
    }

    /// Commits and pushes what the person has written.
    fn push(&self) {
        self.person.commit();
        self.person.git(&["push", "--quiet", &self.url(), "main"]);
    }
}

fn change(id: &str, edits: Vec<FieldEdit>) -> SourceChange {
    let at = jiff::Timestamp::from_second(1_800_000_000).unwrap();
    SourceChange::new(
        ChangeId::new(id).unwrap(),
        edits,
        "autoscaler <x>",
        "more load",
        at,
    )
}

fn set(file: &str, was: u32, to: u32) -> FieldEdit {
    FieldEdit::set(
        &format!("configs/{file}.yaml#0"),
        "replicas".parse().unwrap(),
        was,
        to,
    )
}

async fn make(source: &TreeSource<Git, Yaml>, change: &SourceChange) -> Proposal {
    let proposal = source.propose(change).await.unwrap();
    let revision = source.commit(change, &proposal).await.unwrap();
    assert_eq!(revision, proposal.reading.revision);
    proposal
}

#[tokio::test]
async fn r48_edit_of_two_files_is_one_commit_with_author_reason_and_id() {
    let world = World::new();
    let source = world.source();
    let first = source.read().await.unwrap().revision;
    let both = change("one", vec![set("eu", 3, 5), set("us", 2, 4)]);
    let proposal = source.propose(&both).await.unwrap();
    assert_eq!(
        source.read().await.unwrap().revision,
        first,
        "nothing is pushed yet"
    );
    make(&source, &both).await;
    let reading = source.read().await.unwrap();
    assert_eq!(reading.revision, proposal.reading.revision);
    assert_eq!(reading, proposal.reading);
    let text = world.git(&["show", "main:configs/eu.yaml"]);
    assert_eq!(text, EU.replace('3', "5"));
    let log = world.git(&["log", "--format=%an|%ae|%cn|%at|%P|%B", "-1", "main"]);
    let expected = format!(
        "autoscaler x|plane@example.com|the plane|1800000000|{}|more load\n\nChange: one",
        first.0
    );
    assert_eq!(log.trim(), expected);
    world.git(&["fsck", "--strict"]);
    source.commit(&both, &proposal).await.unwrap();
    assert_eq!(
        world.git(&["rev-list", "--count", "main"]).trim(),
        "2",
        "made once"
    );
}

#[tokio::test]
async fn r34_branch_that_has_moved_gets_no_commit_and_a_new_proposal_fits() {
    let world = World::new();
    let (one, two) = (world.source(), world.source());
    let (a, b) = (
        change("a", vec![set("eu", 3, 5)]),
        change("b", vec![set("us", 2, 4)]),
    );
    let first = one.propose(&a).await.unwrap();
    let second = make(&two, &b).await;
    let moved = one.commit(&a, &first).await.unwrap_err();
    let now = second.reading.revision.clone();
    assert_eq!(moved, EditError::Moved { now });
    make(&one, &a).await;
    let us = world.git(&["show", "main:configs/us.yaml"]);
    assert_eq!(us, "replicas: 4\n", "both are there");
    // A person rewrites the history.
    let third = change("c", vec![set("us", 4, 6)]);
    let proposal = one.propose(&third).await.unwrap();
    world.git(&["update-ref", "refs/heads/main", &first.before.0]);
    let moved = one.commit(&third, &proposal).await.unwrap_err();
    assert!(matches!(moved, EditError::Moved { .. }), "{moved:?}");
}

#[tokio::test]
async fn r34_branches_keep_the_laws_of_editable_sources() {
    let world = World::new();
    let changes = [
        change("one", vec![set("eu", 3, 5)]),
        change("two", vec![set("eu", 5, 6), set("us", 2, 6)]),
    ];
    conformance::editable(&world.source(), changes)
        .await
        .unwrap();
}

#[tokio::test]
async fn r34_process_that_dies_before_or_after_the_push_makes_one_commit() {
    for pushed in [false, true] {
        let world = World::new();
        let change = change("one", vec![set("eu", 3, 5)]);
        let source = world.source();
        let proposal = source.propose(&change).await.unwrap();
        if pushed {
            source.commit(&change, &proposal).await.unwrap();
        }
        drop(source);
        // Another process, with another clone.
        let again = world.source().commit(&change, &proposal).await.unwrap();
        assert_eq!(again, proposal.reading.revision);
        assert_eq!(world.git(&["rev-list", "--count", "main"]).trim(), "2");
    }
}

#[tokio::test]
async fn r34_server_that_refuses_and_refs_that_are_no_branch_are_told() {
    let world = World::new();
    let change = change("one", vec![set("eu", 3, 5)]);
    let source = world.source();
    let proposal = source.propose(&change).await.unwrap();
    let hook = world.shared.path().join("shared.git/hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho only people may push >&2\nexit 1\n").unwrap();
    #[cfg(unix)]
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let EditError::Failed(refused) = source.commit(&change, &proposal).await.unwrap_err() else {
        panic!("the server refuses");
    };
    let refused = refused.to_string();
    assert!(refused.contains("pre-receive hook declined"), "{refused}");
    assert!(refused.contains("only people may push"), "{refused}");
    let head = Git::new(&world.url()).yaml();
    let wrong = head.propose(&change).await.unwrap_err().to_string();
    assert!(wrong.contains("is no branch; name a branch"), "{wrong}");
    fs::remove_file(&hook).unwrap();
    world.person.write("configs/eu.yaml", "replicas: 9\n");
    world.push();
    let wrong = source.propose(&change).await.unwrap_err().to_string();
    assert!(wrong.contains("is 9, but 3 was expected"), "{wrong}");
}
