//! A season: the texts are loaded and verified while posters and tickets are printed, a person decides, and all that was
//! printed is destroyed if the season does not open.

use control_plane::{
    ControlPlaneBuilder,
    prelude::plugin,
    workflow::{
        Answer, Error, FunctionInfo, FunctionRequest, Machine, Ran, Repeat, Workflow, all, any,
        cancelled, from_fn, is,
    },
};
use serde_json::json;

/// The works whose texts there are. Others are lost.
const WORKS: [&str; 4] = ["hamlet", "lear", "othello", "tempest"];
/// The work that is never named in a theatre: it ends the process. It stands for a defect that an input triggers.
const CURSED: &str = "macbeth";

/// The steps that print.
const PRINTS: [&str; 3] = ["posters", "tickets", "programme"];

/// Registers the workflow `season` and its functions.
pub(super) fn add(builder: ControlPlaneBuilder) -> Result<ControlPlaneBuilder, Error> {
    let safe = |name: &str| FunctionInfo::new(name).repeat(Repeat::Safe);
    Ok(builder
        .function(from_fn(safe("load-texts"), load))
        .function(from_fn(safe("verify-texts"), verify))
        .workflow(season()?))
}

fn season() -> Result<Workflow, Error> {
    let printed = PRINTS.map(|step| is(step, "done"));
    let season = Workflow::new("season")
        .machine(Machine::calls("load", "load-texts"))
        .machine(Machine::calls("verify", "verify-texts").when(is("load", "done")))
        .machine(Machine::calls("posters", "print"))
        .machine(Machine::calls("tickets", "print").when(is("load", "done")))
        .machine(
            Machine::calls("programme", "print")
                .when(all([is("verify", "done"), is("posters", "done")])),
        )
        .machine(Machine::asks("go", "Open the season?", ["yes", "no"]).when(all(printed)));
    // A print is destroyed when its call is over, so that nothing is printed after that.
    let with_undo = PRINTS.into_iter().fold(season, |season, step| {
        let over = is(step, ["done", "failed"]);
        let undo = Machine::calls(&*format!("undo-{step}"), "withdraw")
            .input(json!({ "step": step }))
            .cleans_up()
            .when(all([over, given_up()]));
        season.machine(undo)
    });
    with_undo
        .ends_well(is("go", "yes"))
        .ends_badly(is("go", "no"))
        .build()
}

/// Holds when the season does not open.
fn given_up() -> control_plane::workflow::Guard {
    let failed = ["load", "verify", "posters", "tickets", "programme"];
    let failed = failed.map(|step| is(step, "failed"));
    any(failed.into_iter().chain([is("go", "no"), cancelled()]))
}

/// Finds the texts of the works.
async fn load(request: FunctionRequest) -> Result<Ran, plugin::Error> {
    let works: Vec<String> = request.input("works")?;
    if works.iter().any(|work| work == CURSED) {
        std::process::abort();
    }
    let (found, lost): (Vec<_>, Vec<_>) = works
        .into_iter()
        .partition(|work| WORKS.contains(&work.as_str()));
    let answer = Answer::new().context("lost", &lost)?;
    Ok(answer.output(&found)?.done())
}

/// Refuses a season of which a text is lost.
async fn verify(request: FunctionRequest) -> Result<Ran, plugin::Error> {
    let lost: Vec<String> = request.context_entry("lost")?;
    match lost.first() {
        Some(work) => Err(plugin::Error::permanent(format!(
            "the text of `{work}` is lost; play another work"
        ))),
        None => Ok(Answer::new().done()),
    }
}
