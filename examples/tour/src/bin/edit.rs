//! Edits of intent: an autoscaler changes one field of the file that people edit too.
//!
//! The edit changes that field and nothing else, after the whole pipeline has agreed. The autoscaler holds the field until
//! it lets go: another program is refused. A person with an editor is not: what the person writes stands, and the autoscaler
//! is told.
//!
//! Run it with `cargo run -p tour --bin edit`.
#![allow(clippy::print_stdout, reason = "a program that prints its steps")]

use std::{collections::BTreeSet, fs, time::Duration};

use control_plane::{
    SourceEdit,
    prelude::*,
    sdk::{testing::InMemoryProduction, text::shown},
};
use serde::{Deserialize, Serialize};

/// The manifest, as a person has written it.
const MANIFEST: &str = "\
queues:
  mail:  {size: 10} # measured in May
  print: {size: 5}
";

/// A queue, as the manifest says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    size: u32,
}

impl Message for Queue {
    const TYPE: &'static str = "queues.v1.Queue";
}

/// Makes one queue of each entry. Refuses a queue that is too large.
struct Queues;

impl Generator for Queues {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_entry("queues", "queues.yaml", "queues").makes::<Queue>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        if let Some(entry) = input.entry() {
            let queue: Queue = entry.read()?;
            if queue.size > 100 {
                out.problem(entry.problem("a queue has at most 100 places; add a second queue"));
            }
            let id = AssetId::new(&format!("queue/{}", entry.key()))?;
            out.asset(Asset::builder(id).payload(&queue)?, entry.provenance())?;
        }
        Ok(())
    }
}

/// An edit of the size of a queue.
fn resize(who: &str, queue: &str, was: u32, to: u32) -> Result<SourceEdit, BoxError> {
    let size = format!("queues.{queue}.size").parse()?;
    let edit = SourceEdit::new("queues.yaml", By::new(who, "the load has changed"));
    Ok(edit.field(FieldEdit::set("queues.yaml#0", size, was, to)))
}

fn print(text: impl std::fmt::Display) {
    for line in text.to_string().lines() {
        println!("  {}", shown(line));
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("queues.yaml");
    fs::write(&path, MANIFEST)?;
    let production = InMemoryProduction::new();
    let plane = ControlPlane::builder("queues")
        .store(MemoryStore::new())
        .editable(YamlFile::watch(&path))
        .generator(Queues)
        .validators(validators::standard())
        .asset_plugin::<Queue>(production.clone())
        .build()?;
    let handle = plane.handle();
    tokio::spawn(plane.run(std::future::pending()));
    let within = Duration::from_secs(30);
    handle.settle(within).await?;

    println!("the autoscaler asks what an edit would do, then makes it:");
    let edit = resize("autoscaler", "mail", 10, 40)?.held_by("autoscaler");
    print(handle.dry_run_edit(&edit).await?.diff);
    handle.edit(&edit).await?;
    handle.settle(within).await?;
    let mail = AssetId::new("queue/mail")?;
    println!(
        "  production: {}",
        production.payload(&mail).unwrap_or_default()
    );

    println!("too much is refused by the pipeline, before the file is changed:");
    let too_much = resize("autoscaler", "mail", 40, 400)?.held_by("autoscaler");
    if let Err(refused) = handle.edit(&too_much).await {
        print(refused);
    }

    println!("another program is refused, because the autoscaler holds the field:");
    if let Err(refused) = handle.edit(&resize("night job", "mail", 40, 1)?).await {
        print(refused);
    }

    println!("a person is not: the field is theirs, and the autoscaler is told:");
    let text = fs::read_to_string(&path)?.replace("size: 40", "size: 20");
    fs::write(&path, text)?;
    let holder = "autoscaler".into();
    let none = BTreeSet::new();
    let told = handle.overwritten_fields(&holder, &none);
    let (told, settled) = tokio::join!(told, handle.settle(within));
    settled?;
    for field in told? {
        let found = field.overwritten.and_then(|it| it.found);
        println!("  {} is {}", field.edit.path, found.unwrap_or_default());
    }
    println!("the file:");
    print(fs::read_to_string(&path)?);
    Ok(())
}
