//! Tests of the service with real files, and with mocks of the plugin traits.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use embedded::{check::Freeze, service::Service, sites::Files};
use plugin_sdk::{
    AssetPlugin, Change, CheckInfo, CheckPlugin, CheckRequest, Delay, Diff, DiffRequest, Effects,
    Pushed, Recheck, Verdict,
    conformance::AssetSuite,
    plugin,
    testing::{MockAssetPlugin, MockCheckPlugin},
};
use prodspec_gen::YamlFile;
use prodspec_model::AssetId;

const LONG: Duration = Duration::from_secs(60);

/// Creates a source with one site that has these pages.
fn source(directory: &Path, pages: &str) -> YamlFile {
    let path = directory.join("sites.yaml");
    std::fs::write(
        &path,
        format!("site: home\ngreeting: Hello\npages: [{pages}]\n"),
    )
    .unwrap();
    YamlFile::new(path)
}

fn running(
    source: YamlFile,
    pages: impl AssetPlugin,
    check: impl CheckPlugin,
) -> embedded::service::Handle {
    let service = Service::new(source, pages, check).unwrap();
    let handle = service.handle();
    tokio::spawn(service.run(std::future::pending()));
    handle
}

/// The calls of a mock, in order. They are compared at the end of a test: the enforcer would catch a panic inside a
/// mock and treat it as a failed call.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<&'static str>>>);

impl Calls {
    fn note(&self, call: &'static str) {
        self.0.lock().unwrap().push(call);
    }

    fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// A mock check that returns the result of `verdict`.
fn check(
    calls: &Calls,
    verdict: impl Fn(&CheckRequest) -> Verdict + Send + 'static,
) -> MockCheckPlugin {
    let (mut check, calls) = (MockCheckPlugin::new(), calls.clone());
    check.expect_info().returning(|| CheckInfo::new("mock"));
    check.expect_check().returning(move |request| {
        calls.note("check");
        Ok(verdict(&request))
    });
    check
}

/// A mock check that delays no push.
fn always_proceeds(calls: &Calls) -> MockCheckPlugin {
    check(calls, |request| Verdict::proceed(request.now))
}

/// A mock plugin that answers diffs with `diff` and pushes with `push`.
fn pages(
    calls: &Calls,
    mut diff: impl FnMut(&DiffRequest) -> Result<Diff, plugin::Error> + Send + 'static,
    mut push: impl FnMut() -> Result<Pushed, plugin::Error> + Send + 'static,
) -> MockAssetPlugin {
    let mut plugin = MockAssetPlugin::new();
    let of_diff = calls.clone();
    plugin.expect_diff().returning(move |request| {
        of_diff.note("diff");
        diff(&request)
    });
    let of_push = calls.clone();
    plugin.expect_push().returning(move |_| {
        of_push.note("push");
        push()
    });
    plugin
}

fn differs(request: &DiffRequest) -> Result<Diff, plugin::Error> {
    let asset = request.asset()?;
    let change = Change::new(&asset, "write the page", vec![], Effects::default());
    Ok(Diff::differs(change))
}

#[tokio::test]
async fn pages_are_written_as_files() {
    let directory = tempfile::tempdir().unwrap();
    let files = Files::new(directory.path());
    let freeze = Freeze::new(directory.path().join("FREEZE"));
    let handle = running(
        source(directory.path(), "index, about"),
        files.clone(),
        freeze,
    );
    handle.settle(LONG).await.unwrap();
    let index = files.path(&AssetId::new("page/home/index").unwrap());
    assert_eq!(
        std::fs::read_to_string(&index).unwrap(),
        "Hello, this is index.\n"
    );
    assert_eq!(index.file_name().unwrap(), "page+home+index");
}

#[tokio::test]
async fn bad_page_name_is_refused_with_its_place() {
    let (directory, calls) = (tempfile::tempdir().unwrap(), Calls::default());
    let plugin = pages(&calls, differs, || Ok(Pushed::Done));
    let handle = running(
        source(directory.path(), "index, ../passwd"),
        plugin,
        always_proceeds(&calls),
    );
    let refused = handle.settle(LONG).await.unwrap_err().to_string();
    assert!(refused.contains("sites.yaml#0"), "{refused}");
    assert!(refused.contains("../passwd"), "{refused}");
    assert!(calls.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn page_in_sync_is_never_pushed() {
    let (directory, calls) = (tempfile::tempdir().unwrap(), Calls::default());
    let plugin = pages(&calls, |_| Ok(Diff::in_sync()), || Ok(Pushed::Done));
    let handle = running(
        source(directory.path(), "index"),
        plugin,
        always_proceeds(&calls),
    );
    handle.settle(LONG).await.unwrap();
    assert_eq!(calls.all(), ["diff"]);
}

#[tokio::test(start_paused = true)]
async fn failed_push_is_repeated_after_another_diff() {
    let (directory, calls) = (tempfile::tempdir().unwrap(), Calls::default());
    let pushes = Arc::new(AtomicU32::new(0));
    let so_far = pushes.clone();
    let diff = move |request: &DiffRequest| match so_far.load(Relaxed) {
        0 | 1 => differs(request),
        _ => Ok(Diff::in_sync()),
    };
    let push = move || match pushes.fetch_add(1, Relaxed) {
        0 => Err(plugin::Error::transient("the disk is full")),
        _ => Ok(Pushed::Done),
    };
    let handle = running(
        source(directory.path(), "index"),
        pages(&calls, diff, push),
        always_proceeds(&calls),
    );
    handle.settle(LONG).await.unwrap();
    let once = ["diff", "check", "push"];
    assert_eq!(calls.all(), [&once[..], &once[..], &["diff"]].concat());
}

#[tokio::test(start_paused = true)]
async fn page_is_not_pushed_while_a_check_delays() {
    let (directory, calls) = (tempfile::tempdir().unwrap(), Calls::default());
    let plugin = pages(&calls, differs, || Ok(Pushed::Done));
    let never = check(&calls, |request| {
        let delay = Delay::new("not today", Recheck::After(Duration::from_secs(1))).check("mock");
        Verdict::delay(request.now, delay)
    });
    let handle = running(source(directory.path(), "index"), plugin, never);
    let settled = handle.settle(LONG).await.unwrap_err().to_string();
    assert!(settled.contains("did not settle"), "{settled}");
    let calls = calls.all();
    assert!(!calls.contains(&"push"), "{calls:?}");
    let asked = calls.iter().filter(|call| **call == "check").count();
    assert!(
        (30..=61).contains(&asked),
        "the check ran {asked} times in a minute"
    );
}

#[tokio::test]
async fn files_plugin_passes_the_conformance_suite() {
    let directory = tempfile::tempdir().unwrap();
    let page = embedded::model::Page {
        site: "home".into(),
        text: "Hello".into(),
    };
    let id = AssetId::new("page/home/index").unwrap();
    let asset = prodspec_model::Asset::builder(id)
        .payload(&page)
        .unwrap()
        .build()
        .unwrap();
    let intent = plugin_sdk::testing::incarnation(1, [asset]);
    let (files, mut laws) = (Files::new(directory.path()), AssetSuite::new());
    laws.run(&files, &intent).await.unwrap();
}

#[test]
fn tour_shows_every_step_and_exits() {
    let mut tour = std::process::Command::new(env!("CARGO_BIN_EXE_embedded"));
    let ended = tour.output().unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{said}");
    let after: Vec<_> = said.split("\nrepaired:\n").collect();
    assert!(
        after[1].contains("page+home+about: Good evening, this is about."),
        "{said}"
    );
    assert!(after[0].contains("the check `freeze` delays"), "{said}");
    assert!(after[1].contains("the greeting is empty"), "{said}");
}
