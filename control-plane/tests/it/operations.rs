//! Operations and schedules in a whole control plane: edits of several steps are one, and schedules are assets.

use std::{collections::BTreeMap, path::Path};

use control_plane::{
    ControlPlaneBuilder,
    prelude::*,
    workflow::{
        Answer, CronOperation, EditedAsset, FunctionInfo, FunctionRequest, History, Operation,
        Outcome, PipelineStep, Power, Repeat, Schedule, ScheduleWord, What, from_fn,
    },
};
use serde::Deserialize;

use crate::world::*;

const SERVICES: &str = "services:\n  a: {size: 3} # measured in May\n  b: {size: 5}\n";

fn size(request: &FunctionRequest, name: &str) -> Result<u64, plugin::Error> {
    let service = request.reader.asset(&id(name))?.payload::<Service>();
    let service = service.map_err(|error| plugin::Error::permanent(error.to_string()))?;
    Ok(service.size)
}

fn set(name: &str, was: u64, to: u64) -> Answer {
    let path = format!("services.{name}.size").parse().unwrap();
    let field = FieldEdit::set("manifest.yaml#0", path, was, to);
    Answer::new().edit("manifest.yaml", field)
}

/// `double` doubles the service `a`; `follow` gives `b` what `a` is going to have.
fn functions(builder: ControlPlaneBuilder) -> ControlPlaneBuilder {
    let double = async |request: FunctionRequest| {
        let was = size(&request, "a")?;
        Ok(set("a", was, 2 * was).output(&was)?.done())
    };
    let follow = async |request: FunctionRequest| {
        let to = request.edits.first().and_then(|edit| edit.edit.to.as_ref());
        let to = to.and_then(|to| to.as_u64());
        let to = to.ok_or_else(|| plugin::Error::permanent("no edit before"))?;
        Ok(set("b", size(&request, "b")?, to).done())
    };
    let may = |name| {
        FunctionInfo::new(name)
            .repeat(Repeat::Safe)
            .may(Power::edit("manifest.yaml", "services.*.size"))
    };
    builder
        .function(from_fn(may("double"), double))
        .function(from_fn(may("follow"), follow))
}

fn resize() -> Operation {
    Operation::pipeline([
        PipelineStep::new("double", "double"),
        PipelineStep::new("follow", "follow"),
    ])
    .may([Power::edit("manifest.yaml", "services.*.size")])
    .settles(LONG)
}

fn build(dir: &Path, production: &Production) -> Running {
    let store = SqliteStore::open_wait(dir.join("state")).unwrap();
    let builder = functions(plane(production))
        .store(store)
        .editable(YamlFile::watch(dir.join("manifest.yaml")));
    Running::start(builder.build().unwrap())
}

#[tokio::test]
async fn r35_operation_edits_once_per_key_and_is_done_when_production_has_it() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), SERVICES);
    let running = build(dir.path(), &production);
    running.handle.settle(LONG).await.unwrap();
    let contents = async || {
        let latest = running.handle.latest().await.unwrap();
        ["a", "b"].map(|name| Some(latest.asset(&id(name)).unwrap().digest()))
    };
    let before = contents().await;
    let run = async |handle: &Handle, operation: &Operation| {
        handle
            .run_operation("resize", operation, "monday", ann())
            .await
    };
    let started = run(&running.handle, &resize()).await.unwrap().id;
    let ended = running.handle.wait_execution(&started, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded, "{:?}", ended.errors);
    assert_eq!(
        (production.size("a"), production.size("b")),
        (Some(6), Some(6))
    );
    let log = running.handle.execution_log(&started).await.unwrap();
    let edited = log.into_iter().find_map(|entry| match entry.what {
        What::Edited { changes, .. } => Some(changes),
        _ => None,
    });
    let after = contents().await;
    let changed = ["a", "b"].into_iter().zip(before.into_iter().zip(after));
    let changed = changed.map(|(name, (before, after))| EditedAsset {
        asset: id(name),
        before,
        after,
    });
    assert_eq!(edited, Some(changed.collect()));
    let text = || std::fs::read_to_string(dir.path().join("manifest.yaml")).unwrap();
    let expected = SERVICES
        .replace("size: 3", "size: 6")
        .replace("size: 5", "size: 6");
    assert_eq!(text(), expected);
    running.stop().await;

    let running = build(dir.path(), &production);
    running.handle.settle(LONG).await.unwrap();
    let again = run(&running.handle, &resize()).await.unwrap();
    assert_eq!(
        (again.id, again.new, again.outcome),
        (started.clone(), false, Some(Outcome::Succeeded))
    );
    assert_eq!(text(), expected, "it is not run again");
    let other = run(&running.handle, &resize().rerun(1)).await.unwrap_err();
    assert!(other.to_string().contains("another input"), "{other}");
    let output = running
        .handle
        .execution_output(&started, &"double".into())
        .await
        .unwrap();
    assert_eq!(output, Some(serde_json::json!(3)));
    running.stop().await;
}

#[tokio::test]
async fn r34_operation_over_its_blast_radius_edits_nothing() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), SERVICES);
    let running = build(dir.path(), &production);
    running.handle.settle(LONG).await.unwrap();
    let small = resize().blast_radius(1);
    let started = running
        .handle
        .run_operation("resize", &small, "1", ann())
        .await
        .unwrap();
    let ended = running
        .handle
        .wait_execution(&started.id, LONG)
        .await
        .unwrap();
    assert_eq!(ended.outcome, Outcome::Failed);
    let why = &ended.errors[&"edit-sources".into()];
    assert!(
        why.contains("would change 2 assets, 1 are allowed"),
        "{why}"
    );
    assert_eq!(
        std::fs::read_to_string(dir.path().join("manifest.yaml")).unwrap(),
        SERVICES
    );
    running.stop().await;
}

#[tokio::test]
async fn r34_only_an_operation_with_the_power_turns_assets_down() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), SERVICES);
    let end = async |_: FunctionRequest| {
        let path = "services.b.turndown".parse().unwrap();
        let field = FieldEdit::add("manifest.yaml#0", path, true);
        Ok(Answer::new().edit("manifest.yaml", field).done())
    };
    let edits = Power::edit("manifest.yaml", "services.*");
    let (edits_only, both) = ([edits.clone()], [edits, Power::Turndown]);
    let function = |name: &str, may: &[Power]| {
        let info = FunctionInfo::new(name).repeat(Repeat::Safe);
        from_fn(may.iter().cloned().fold(info, FunctionInfo::may), end)
    };
    let plane = plane(&production)
        .store(SqliteStore::open_wait(dir.path().join("state")).unwrap())
        .editable(YamlFile::watch(dir.path().join("manifest.yaml")))
        .function(function("edits", &edits_only))
        .function(function("removes", &both));
    let running = Running::start(plane.build().unwrap());
    running.handle.settle(LONG).await.unwrap();
    let run = async |function: &str, may: &[Power]| {
        let operation = Operation::pipeline([PipelineStep::new("end", function)]);
        let operation = operation.may(may.iter().cloned());
        let key = format!("{function} {}", may.len());
        let started = running
            .handle
            .run_operation("end", &operation, key, ann())
            .await
            .unwrap();
        let ended = running.handle.wait_execution(&started.id, LONG);
        ended.await.unwrap()
    };
    for (function, may) in [
        ("edits", &edits_only[..]),
        ("edits", &both),
        ("removes", &edits_only),
    ] {
        let ended = run(function, may).await;
        let why = &ended.errors[&"edit-sources".into()];
        assert!(
            why.contains("would turn down `b`"),
            "{function} {may:?}: {why}"
        );
        let text = std::fs::read_to_string(dir.path().join("manifest.yaml")).unwrap();
        assert_eq!(text, SERVICES);
    }
    let ended = run("removes", &both).await;
    assert_eq!(ended.outcome, Outcome::Succeeded, "{:?}", ended.errors);
    running.stop().await;
}

#[tokio::test]
async fn r35_operation_with_problems_is_refused_with_all_of_them() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), SERVICES);
    let running = build(dir.path(), &production);
    running.handle.settle(LONG).await.unwrap();
    let broken = Operation::pipeline([
        PipelineStep::new("x", "gone"),
        PipelineStep::new("x", "double"),
    ]);
    let refused = running
        .handle
        .run_operation("broken", &broken, "1", ann())
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the operation `broken` is refused: more than one step is named `x`; rename all but one; \
         the step `x` calls `gone`, which is not registered; register it with `.function(..)`"
    );
    running.stop().await;
}

#[derive(Deserialize)]
struct Wanted {
    cron: String,
    function: String,
}

/// Makes a schedule of each entry.
struct Crons;

impl Generator for Crons {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("crons", "crons.yaml").makes::<CronOperation>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            for (name, wanted) in document.read::<BTreeMap<String, Wanted>>()? {
                let content = CronOperation {
                    schedule: Schedule::new(wanted.cron),
                    starting_deadline_secs: None,
                    concurrency: Default::default(),
                    history: History::default(),
                    template: Operation::pipeline([PipelineStep::new("run", wanted.function)])
                        .may([Power::edit("manifest.yaml", "services.*.size")]),
                };
                let asset = Asset::builder(AssetId::new(&format!("cron/{name}"))?);
                out.asset(asset.payload(&content)?, document.provenance())?;
            }
        }
        Ok(())
    }
}

fn scheduling(dir: &Path, production: &Production) -> Running {
    let builder = functions(plane(production))
        .store(MemoryStore::new())
        .generator(Crons)
        .source(YamlFile::watch(dir.join("crons.yaml")))
        .editable(YamlFile::watch(dir.join("manifest.yaml")));
    Running::start(builder.build().unwrap())
}

#[tokio::test]
async fn r37_schedule_runs_now_beside_its_slots_but_not_while_it_is_paused() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), SERVICES);
    let nightly = "nightly: {cron: '0 0 1 1 *', function: double}";
    std::fs::write(dir.path().join("crons.yaml"), nightly).unwrap();
    let running = scheduling(dir.path(), &production);
    let (handle, asset) = (&running.handle, id("cron/nightly"));
    handle.settle(LONG).await.unwrap();
    let next = async || handle.schedules().await.unwrap()[0].next;
    let before = next().await;
    let tell = async |word| handle.say_to_schedule(&asset, word, ann()).await.unwrap();

    tell(ScheduleWord::Pause).await;
    let refused = handle.run_schedule(&asset, ann()).await.unwrap_err();
    assert!(refused.to_string().contains("paused"), "{refused}");
    tell(ScheduleWord::Resume).await;
    let run = handle.run_schedule(&asset, ann()).await.unwrap();
    assert_eq!(run.to_string(), "cron.nightly-0000000001");
    let ended = handle.wait_execution(&run, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded, "{:?}", ended.errors);
    assert_eq!(next().await, before, "its slots stay as they are");
    running.stop().await;
}

#[tokio::test]
async fn r37_schedule_is_an_asset_that_is_refused_at_the_seal_or_listed() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), SERVICES);
    let crons = |text: &str| std::fs::write(dir.path().join("crons.yaml"), text).unwrap();
    crons("nightly: {cron: '0 0 1 1 *', function: double}");
    let running = scheduling(dir.path(), &production);
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let asset = id("cron/nightly");
    let listed = async || {
        let mut all = handle.schedules().await.unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    };
    assert!(
        listed()
            .await
            .next
            .unwrap()
            .to_string()
            .ends_with("-01-01T00:00:00Z")
    );
    handle
        .say_to_schedule(&asset, ScheduleWord::Pause, ann())
        .await
        .unwrap();
    assert!(listed().await.paused.is_some());
    handle
        .say_to_schedule(&asset, ScheduleWord::Resume, ann())
        .await
        .unwrap();
    assert!(listed().await.paused.is_none());

    crons("nightly: {cron: '61 0 1 1 *', function: gone}");
    let Err(control_plane::Error::Refused(problems)) = handle.settle(LONG).await else {
        panic!("it is not refused");
    };
    let problems = problems.to_string();
    assert!(problems.contains("payload.schedule.cron"), "{problems}");
    assert!(
        problems.contains("payload.template.pipeline[0].function"),
        "{problems}"
    );
    assert!(problems.contains("crons.yaml"), "{problems}");

    crons("{}");
    handle.settle(LONG).await.unwrap();
    while listed().await.orphan.is_none() {
        tokio::task::yield_now().await;
    }
    handle
        .say_to_schedule(&asset, ScheduleWord::Acknowledge, ann())
        .await
        .unwrap();
    assert!(handle.schedules().await.unwrap().is_empty());
    running.stop().await;
}
