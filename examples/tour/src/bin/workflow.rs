//! A workflow: an edit that waits for production, an effect that happens once although the control plane ends in the middle
//! of it, and a person who has the edit put back.
//!
//! Run it with `cargo run -p tour --bin workflow`.
#![allow(clippy::print_stdout, reason = "a program that prints its steps")]

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use control_plane::{
    prelude::*,
    sdk::{Guard, testing::InMemoryProduction, text::shown},
    workflow::{
        Answer, ExecutionId, FunctionInfo, FunctionRequest, Machine, Power, Ran, Repeat, Say,
        Start, Workflow, all, any, cancelled, from_fn, is, not,
    },
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The manifest, as a person has written it.
const MANIFEST: &str = "databases:\n  texts: {schema: 2} # since May\n";
/// Longest time for a step of this program.
const WITHIN: Duration = Duration::from_secs(30);

/// A database, as the manifest says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Database {
    schema: u32,
}

impl Message for Database {
    const TYPE: &'static str = "databases.v1.Database";
}

/// Makes one database of each entry.
struct Databases;

impl Generator for Databases {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_entry("databases", "databases.yaml", "databases").makes::<Database>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        if let Some(entry) = input.entry() {
            let id = AssetId::new(&format!("database/{}", entry.key()))?;
            let asset = Asset::builder(id).payload(&entry.read::<Database>()?)?;
            out.asset(asset, entry.provenance())?;
        }
        Ok(())
    }
}

/// Fills the new column of each row. It remembers the keys of the calls it has seen, so the rows are filled once.
#[derive(Clone, Default)]
struct Filler {
    calls: Arc<Mutex<BTreeMap<String, u32>>>,
    called: Arc<Notify>,
}

impl Filler {
    /// The first call of a key does the work, and never answers.
    async fn fill(&self, request: FunctionRequest) -> Result<Ran, plugin::Error> {
        let calls = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let calls = calls.entry(request.key.to_string()).or_default();
            *calls += 1;
            *calls
        };
        println!("  call {calls} of {}", shown(&request.key.to_string()));
        self.called.notify_one();
        match calls {
            1 => std::future::pending().await,
            _ => Ok(Answer::new().note("the rows are filled").done()),
        }
    }
}

/// Returns the edit that the control plane makes: the new schema.
async fn set_schema(request: FunctionRequest) -> Result<Ran, plugin::Error> {
    let texts = request
        .reader
        .asset(&AssetId::new("database/texts").map_err(refused)?)?;
    let schema = texts.payload::<Database>().map_err(refused)?.schema;
    let field = "databases.texts.schema".parse().map_err(refused)?;
    let edit = FieldEdit::set("databases.yaml#0", field, schema, schema + 1);
    Ok(Answer::new().edit("databases.yaml", edit).done())
}

fn refused(error: impl std::fmt::Display) -> plugin::Error {
    plugin::Error::permanent(error.to_string())
}

/// A cancel lets `expand` and `fill` come to their ends, because they clean up. Then the edit is put back.
fn migration() -> Result<Workflow, BoxError> {
    let expand = Machine::calls("expand", "set-schema").settles(WITHIN);
    let fill = Machine::calls("fill", "fill");
    let workflow = Workflow::new("migration")
        .machine(Machine::asks("go", "Change the schema?", ["yes", "no"]))
        .machine(expand.cleans_up().when(is("go", "yes")))
        .machine(fill.cleans_up().when(is("expand", "done")))
        .machine(
            Machine::asks("keep", "Keep the new schema?", ["yes", "no"]).when(is("fill", "done")),
        )
        .machine(Machine::restores("back", ["expand"]).cleans_up().when(any([
            is("fill", "failed"),
            is("keep", "no"),
            all([cancelled(), is("fill", "done"), not(is("keep", "yes"))]),
        ])))
        .ends_well(is("keep", "yes"))
        .ends_badly(any([
            is("go", "no"),
            is("back", "done"),
            is("expand", ["overwritten", "rolled_back"]),
        ]));
    Ok(workflow.build()?)
}

/// Starts a control plane on the directory. Dropping the second value ends it.
fn start(
    dir: &Path,
    production: &InMemoryProduction,
    filler: &Filler,
) -> Result<(Handle, tokio::task::JoinHandle<()>), BoxError> {
    let fills = filler.clone();
    let fill = move |request| {
        let fills = fills.clone();
        async move { fills.fill(request).await }
    };
    let power = Power::edit("databases.yaml", "databases.*.schema");
    let plane = ControlPlane::builder("databases")
        .store(SqliteStore::open_wait(dir.join("state"))?)
        .editable(YamlFile::watch(dir.join("databases.yaml")))
        .generator(Databases)
        .asset_plugin::<Database>(production.clone())
        .function(from_fn(
            FunctionInfo::new("set-schema")
                .repeat(Repeat::Safe)
                .may(power),
            set_schema,
        ))
        .function(from_fn(
            FunctionInfo::new("fill")
                .repeat(Repeat::Keyed)
                .guard(Guard::Guarded),
            fill,
        ))
        .workflow(migration()?)
        .build()?;
    let handle = plane.handle();
    let running = tokio::spawn(async move {
        if let Err(error) = plane.run(std::future::pending()).await {
            println!("the control plane failed: {}", shown(&error.to_string()));
        }
    });
    Ok((handle, running))
}

/// Waits until a machine waits for a person.
async fn asked(handle: &Handle, execution: &ExecutionId) -> Result<(), BoxError> {
    loop {
        let live = handle.execution(execution).await?;
        let live = live.ok_or("the execution has ended")?;
        let machine = live.machine("keep").ok_or("there is no such machine")?;
        if let Some(wait) = &machine.wait {
            println!("  {}", shown(&wait.why));
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("databases.yaml");
    fs::write(&path, MANIFEST)?;
    let (production, filler) = (InMemoryProduction::new(), Filler::default());
    let by = || By::new("jane", "the new edition");

    let (handle, running) = start(dir.path(), &production, &filler)?;
    handle.settle(WITHIN).await?;
    println!(
        "a person agrees to the migration: it edits the manifest, waits until production has it, and fills the rows:"
    );
    let migration = handle
        .start(Start::of("migration").key("schema-3"), by())
        .await?;
    handle
        .say(&migration.id, Say::answer("go", "yes"), by())
        .await?;
    filler.called.notified().await;
    let texts = AssetId::new("database/texts")?;
    println!(
        "  production: {}",
        production.payload(&texts).unwrap_or_default()
    );

    println!("the control plane ends before there is an answer, and another one goes on:");
    running.abort();
    let _ = running.await;
    drop(handle);
    let (handle, _running) = start(dir.path(), &production, &filler)?;
    handle.settle(WITHIN).await?;
    asked(&handle, &migration.id).await?;

    println!("the person says no, so the edit is put back:");
    handle
        .say(&migration.id, Say::answer("keep", "no"), by())
        .await?;
    let ended = handle.wait_execution(&migration.id, WITHIN).await?;
    println!("  {} {}", ended.id, ended.outcome);
    handle.settle(WITHIN).await?;
    print!(
        "{}",
        fs::read_to_string(&path)?
            .lines()
            .map(|line| format!("  {}\n", shown(line)))
            .collect::<String>()
    );
    println!(
        "  production: {}",
        production.payload(&texts).unwrap_or_default()
    );
    Ok(())
}
