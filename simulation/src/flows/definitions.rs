//! The workflows and the functions that they call, as data.

use std::{collections::BTreeSet, sync::OnceLock, time::Duration};

use annealing_workflow::{
    definition::{Definition, Workflow},
    operation::compile,
};
use plugin_sdk::{
    Guard as Callee,
    operation::Repeat,
    workflow::{Action, Guard, Machine, MachineName, Task, WorkflowName, all, any, cancelled, is},
};
use prodspec_model::{
    Digest,
    operation::{Operation, PipelineStep},
};

use super::watches::{NOTE, ROUND, Watch};

/// The function that prints: one at a time.
pub(crate) const PRINT: &str = "print";
/// The function with a probe.
pub(crate) const PUBLISH: &str = "publish";

/// The function that asks for an edit, and the machine that calls it.
pub(crate) const GROW: &str = "grow";
/// The machine that undoes the edit.
pub(crate) const PUT_BACK: &str = "put-back";
/// The function that the slots of schedules call. Its work takes minutes.
pub(crate) const DUMP: &str = "dump";

/// The function whose answer adds machines, and the machine that calls it.
pub(crate) const PLAN: &str = "plan";

/// The names of the schedules. Each has its own concurrency.
pub(crate) const NAMES: [&str; 3] = ["allow", "forbid", "replace"];

/// Time for one call of a function.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A function of the provider.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) repeat: Repeat,
    pub(crate) guard: Callee,
}

const fn function(name: &'static str, repeat: Repeat, guard: Callee) -> Function {
    Function {
        name,
        repeat,
        guard,
    }
}

/// All functions. The first one has a probe.
pub(crate) const FUNCTIONS: [Function; 13] = [
    function(PUBLISH, Repeat::Never, Callee::Guarded),
    function("load", Repeat::Keyed, Callee::Guarded),
    function("verify", Repeat::Safe, Callee::Advisory),
    function(PRINT, Repeat::Keyed, Callee::Advisory),
    function("unload", Repeat::Keyed, Callee::Guarded),
    function("look", Repeat::Safe, Callee::Guarded),
    function("tell", Repeat::Never, Callee::Advisory),
    function("close", Repeat::Keyed, Callee::Guarded),
    function(GROW, Repeat::Safe, Callee::Guarded),
    function(DUMP, Repeat::Keyed, Callee::Guarded),
    function(PLAN, Repeat::Keyed, Callee::Guarded),
    function(NOTE, Repeat::Keyed, Callee::Guarded),
    function(ROUND, Repeat::Safe, Callee::Guarded),
];

/// All workflows, built once.
pub(crate) fn workflows() -> &'static [Workflow] {
    static BUILT: OnceLock<Vec<Workflow>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let all = [season(), tour(), notice(), growth(), opening(), route()];
        let built = all.map(Definition::build);
        built.into_iter().filter_map(Result::ok).collect()
    })
}

/// All workflows as a newer program has them: the season does other things in the same states.
pub(crate) fn newer() -> impl Iterator<Item = &'static Workflow> {
    let all = workflows().iter();
    all.map(|it| {
        newer_season()
            .filter(|newer| newer.name() == it.name())
            .unwrap_or(it)
    })
}

fn newer_season() -> Option<&'static Workflow> {
    static BUILT: OnceLock<Option<Workflow>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let mut newer = season();
        for machine in &mut newer.machines {
            match machine.name.as_str() {
                // Another action that the judge judges as it judges the older one.
                "posters" => {
                    for action in machine.actions.values_mut() {
                        action.blast_radius = Some(50);
                    }
                }
                "rest" => {
                    let rest = Machine::waits("rest", Duration::from_secs(20));
                    *machine = rest.when(is("posters", "done"));
                }
                _ => {}
            }
        }
        newer.build().ok()
    });
    built.as_ref()
}

/// The definition of a workflow as it is registered, as data.
fn definition(name: &WorkflowName) -> Option<&'static Definition> {
    let mut all = workflows().iter().chain(operations());
    let found = all.find(|workflow| workflow.name() == name);
    found.map(Workflow::definition)
}

/// The definition with a digest, as data: the workflow as one of the programs has it, or with the machines of an answer.
pub(crate) fn definition_of(name: &WorkflowName, digest: Digest) -> Option<&'static Definition> {
    let all = workflows().iter().chain(newer()).chain(operations());
    let mut all = all.chain(laid());
    let found = all.find(|it| it.name() == name && it.digest() == digest);
    found.map(Workflow::definition)
}

/// The definition with all machines that an execution of this workflow may have.
pub(crate) fn widest(name: &WorkflowName) -> Option<&'static Definition> {
    let laid = laid().filter(|it| it.name() == name);
    laid.map(Workflow::definition).or_else(|| definition(name))
}

/// The workflow with the machines that the answer of [`PLAN`] adds.
fn laid() -> Option<&'static Workflow> {
    static BUILT: OnceLock<Option<Workflow>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let track = track().into_iter();
        let laid = track.fold(route(), Definition::machine);
        laid.build().ok()
    });
    built.as_ref()
}

/// The operation that slots run.
pub(crate) fn dump() -> Operation {
    Operation::pipeline([PipelineStep::new("run", DUMP)])
}

/// The operations of schedules and watches, as the workflows that they are.
fn operations() -> &'static [Workflow] {
    static BUILT: OnceLock<Vec<Workflow>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let of_schedules = NAMES.iter().map(|name| (format!("cron.{name}"), dump()));
        let of_watches = Watch::ALL.map(|watch| (watch.workflow(), watch.operation()));
        let all = of_schedules.chain(of_watches);
        let built = all.map(|(name, operation)| compile(&name.as_str().into(), &operation));
        built.filter_map(Result::ok).collect()
    })
}

/// Texts are loaded and verified while posters are printed. A person decides whether it is published; what was loaded is
/// unloaded otherwise.
fn season() -> Definition {
    Workflow::new("season")
        .machine(Machine::calls("load", "load").retry_limit(4))
        .machine(Machine::calls("verify", "verify").when(is("load", "done")))
        .machine(
            Machine::calls("posters", PRINT)
                .retry_limit(3)
                .deadline(Duration::from_secs(150)),
        )
        .machine(Machine::waits("rest", Duration::from_secs(30)).when(is("posters", "done")))
        .machine(
            Machine::asks("go", "Open the season?", ["yes", "no"])
                .when(all([is("verify", "done"), is("rest", "done")])),
        )
        .machine(Machine::calls("publish", PUBLISH).when(is("go", "yes")))
        .machine(Machine::calls("undo", "unload").cleans_up().when(all([
            is("load", "done"),
            any([
                is("verify", "failed"),
                is("posters", "failed"),
                is("publish", "failed"),
                is("go", "no"),
                cancelled(),
            ]),
        ])))
        .ends_well(is("publish", "done"))
        .ends_badly(any([is("go", "no"), is("undo", "done")]))
}

/// A notice goes out, in an execution of its own, before the house closes.
fn tour() -> Definition {
    Workflow::new("tour")
        .machine(Machine::starts("notice", "notice"))
        .machine(Machine::calls("close", "close").when(is("notice", "done")))
        .ends_well(is("close", "done"))
}

fn notice() -> Definition {
    Workflow::new("notice")
        .machine(Machine::calls("look", "look"))
        .machine(Machine::calls("tell", "tell").when(is("look", "done")))
        .ends_well(is("tell", "done"))
}

/// A field of the source gets another value. When production has it, that is looked at; it is put back if it is not well.
fn growth() -> Definition {
    let bad = ["overwritten", "rolled_back", "expired"];
    Workflow::new("growth")
        .machine(Machine::calls(GROW, GROW).settles(Duration::from_secs(60)))
        .machine(Machine::calls("look", "look").when(is(GROW, "done")))
        .machine(Machine::restores(PUT_BACK, [GROW]).cleans_up().when(any([
            is("look", "failed"),
            is(GROW, bad),
            cancelled(),
        ])))
        .ends_well(is("look", "done"))
        .ends_badly(any([is(PUT_BACK, "done"), is(GROW, bad)]))
}

/// An effect, an edit and the wait until production has it, and another effect.
fn opening() -> Definition {
    let bad = ["overwritten", "rolled_back", "expired"];
    let grow = Machine::calls(GROW, GROW).settles(Duration::from_secs(300));
    Workflow::new("opening")
        .machine(Machine::calls("load", "load"))
        .machine(grow.when(is("load", "done")))
        .machine(Machine::calls("close", "close").when(is(GROW, "done")))
        .ends_well(is("close", "done"))
        .ends_badly(is(GROW, bad))
}

/// A plan says what is done after it.
fn route() -> Definition {
    Workflow::new("route")
        .machine(Machine::calls(PLAN, PLAN))
        .ends_well(is(PLAN, "done"))
}

/// The machines that the answer of [`PLAN`] adds.
pub(crate) fn track() -> [Machine; 2] {
    [
        Machine::calls("more", "load").when(is(PLAN, "done")),
        Machine::calls("last", "look").when(is("more", "done")),
    ]
}

/// The action of a machine in `state`.
pub(crate) fn action<'d>(
    definition: &'d Definition,
    machine: &MachineName,
    state: &str,
) -> Option<&'d Action> {
    let mut machines = definition.machines.iter();
    let machine = machines.find(|it| it.name == *machine)?;
    let mut actions = machine.actions.iter();
    actions
        .find(|(of, _)| of.as_str() == state)
        .map(|(_, action)| action)
}

/// Whether the machine calls a function.
pub(crate) fn calls(definition: &Definition, machine: &MachineName) -> bool {
    let first = definition.machines.iter().find(|it| it.name == *machine);
    let first = first.and_then(|it| it.actions.get(&it.first));
    first.is_some_and(|action| matches!(action.task, Task::Call { .. }))
}

/// The machines that a restart of `machine` sets back: it, and those whose guards depend on it.
pub(crate) fn depending(definition: &Definition, machine: &MachineName) -> BTreeSet<MachineName> {
    let mut all = BTreeSet::from([machine.clone()]);
    loop {
        let depends = |it: &&Machine| {
            let mut guards = it.actions.values().map(|action| &action.guard);
            !all.contains(&it.name) && guards.any(|guard| mentions(guard, &all))
        };
        let more: Vec<_> = definition.machines.iter().filter(depends).collect();
        if more.is_empty() {
            return all;
        }
        let more: Vec<MachineName> = more.into_iter().map(|it| it.name.clone()).collect();
        all.extend(more);
    }
}

fn mentions(guard: &Guard, machines: &BTreeSet<MachineName>) -> bool {
    match guard {
        Guard::All(guards) | Guard::Any(guards) => guards.iter().any(|it| mentions(it, machines)),
        Guard::Not(guard) => mentions(guard, machines),
        Guard::Is { machine, .. } => machines.contains(machine),
        Guard::Cancelled => false,
    }
}
