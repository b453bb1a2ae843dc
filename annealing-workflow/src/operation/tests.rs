use plugin_sdk::{operation::FunctionInfo, workflow::Task};
use prodspec_model::operation::{CronOperation, PipelineStep, Power, Schedule};
use serde_json::json;

use super::*;

fn two() -> Operation {
    Operation::pipeline([
        PipelineStep::new("measure", "peak-usage"),
        PipelineStep::new("grow", "grow-elsewhere")
            .input(json!({ "percent": 25 }))
            .retry_limit(2),
    ])
}

#[test]
fn r35_operation_is_its_steps_in_sequence_and_one_edit() {
    let settled = two().settles(Duration::from_secs(900)).blast_radius(6);
    let workflow = compile(&"grow".into(), &settled).unwrap();
    let mut position = workflow.first();
    for machine in workflow.numbers() {
        let enabled: Vec<_> = workflow.enabled(&position).collect();
        assert_eq!(enabled, [machine], "one after the other");
        let done = workflow.leads(machine, position.state(machine), &"done".into());
        position.set(machine, done.unwrap());
    }
    assert_eq!(
        workflow.outcome(&position),
        crate::definition::Outcome::Succeeded
    );
    let edit = workflow.definition().machines.last().unwrap();
    let action = &edit.actions[&edit.first];
    let all = vec!["measure".into(), "grow".into()];
    assert_eq!(action.task, Task::Edit { machines: all });
    assert_eq!(action.blast_radius, Some(6));
    assert_eq!(action.settles, Some(Duration::from_secs(900)));
}

#[test]
fn r35_same_operation_compiles_to_the_same_definition() {
    let (one, other) = (
        compile(&"grow".into(), &two()).unwrap(),
        compile(&"grow".into(), &two()).unwrap(),
    );
    assert_eq!(one.digest(), other.digest());
    assert_ne!(digest(&two()), digest(&two().rerun(1)));
    let labelled = two().label("app", "shop");
    let other = compile(&"grow".into(), &labelled).unwrap();
    assert_eq!(one.digest(), other.digest(), "labels are no part of it");
    assert_ne!(digest(&two()), digest(&labelled));
}

#[test]
fn r32_labels_over_their_limits_are_refused_with_the_field() {
    let long = problems(&two().label("app", "x".repeat(254)));
    let [(field, Problem::Labels(over))] = &long[..] else {
        panic!("{long:?}");
    };
    assert_eq!((&**field, over.limit), ("labels", Limit::LABEL));
    let many = (0..33).fold(two(), |it, n| it.label(n.to_string(), "x"));
    let error = compile(&"grow".into(), &many).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the operation `grow` is refused: 33 labels are more than the limit of 32 for an execution"
    );
}

#[test]
fn r35_all_problems_of_an_operation_are_one_error() {
    let broken = Operation::pipeline([
        PipelineStep::new("a b", "f"),
        PipelineStep::new("x", "gone"),
        PipelineStep::new("x", "f"),
        PipelineStep::new(EDIT, "f"),
    ])
    .may([Power::edit("m.yaml", "a[")]);
    let error = Operated::new(&"night".into(), &broken, |name| name == "f").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the operation `night` is refused: \
         `a b` cannot be the name of a machine; use 1 to 100 letters, digits, hyphens, dots and underscores, with a letter or digit first; \
         more than one step is named `x`; rename all but one; \
         a step is named `edit-sources`, as the machine that makes the edits; rename it; \
         the pattern of a power to edit `m.yaml` cannot be read: `a[` is not a field path: expected an index, a quoted key or `name=\"..\"`, and `]`, at byte 2; write it like `clusters[2].labels[\"a.b\"]`; \
         the step `x` calls `gone`, which is not registered; register it with `.function(..)`"
    );
    let empty = compile(&"night".into(), &Operation::default()).unwrap_err();
    assert_eq!(empty.problems, [Problem::Empty]);
}

#[test]
fn r37_schedule_that_cannot_be_used_is_refused_with_the_field() {
    let reindex = FunctionInfo::new("reindex");
    let wrong = |cron: &str, zone: &str| {
        let cron = CronOperation {
            schedule: Schedule::new(cron).zone(zone),
            starting_deadline_secs: None,
            concurrency: Default::default(),
            history: Default::default(),
            template: Operation::pipeline([PipelineStep::new("run", "reindex")]),
        };
        let wrong = valid::wrong(&cron, |name| (name == "reindex").then_some(&reindex));
        wrong
            .into_iter()
            .map(|(field, _)| field)
            .collect::<Vec<_>>()
    };
    assert!(wrong("30 3,15 * * *", "Europe/London").is_empty());
    assert_eq!(wrong("61 * * * *", "UTC"), ["schedule.cron"]);
    assert_eq!(wrong("0 * * * *", "Europe/Atlantis"), ["schedule.zone"]);
    let broken = CronOperation {
        schedule: Schedule::new("0 * * * *"),
        starting_deadline_secs: Some(0),
        concurrency: Default::default(),
        history: Default::default(),
        template: Operation::pipeline([
            PipelineStep::new("run", "gone"),
            PipelineStep::new("run", "reindex"),
        ])
        .may([Power::Pause, Power::edit("m.yaml", "a[")]),
    };
    let fields = valid::wrong(&broken, |name| (name == "reindex").then_some(&reindex)).into_iter();
    assert_eq!(
        fields.map(|(field, _)| field).collect::<Vec<_>>(),
        [
            "starting_deadline_secs",
            "template.pipeline[1].name",
            "template.may[1]",
            "template.pipeline[0].function"
        ]
    );
}
