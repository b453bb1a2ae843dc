//! The commands of the example: prints the assets that a file with services stands for, and where each comes from.
#![allow(clippy::print_stdout, reason = "a program that prints its results")]

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use control_plane::{prelude::*, runtime::TokioRuntime};

/// The file with services that the example comes with.
const SERVICES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/services.yaml");

/// An integrator: a few lines of YAML become jobs, balancers, alerts and dependencies.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Print all assets as one YAML stream. This is the default.
    Render {
        /// The file with services.
        #[arg(default_value = SERVICES)]
        file: PathBuf,
        /// Print only what would change of the assets of this other file.
        #[arg(long)]
        diff: Option<PathBuf>,
    },
    /// Print where an asset comes from, with the line of today.
    Trace {
        /// The id of the asset, such as `job/shop/eu`.
        asset: String,
        /// The file with services.
        #[arg(default_value = SERVICES)]
        file: PathBuf,
    },
    /// Write the JSON Schema of every type to a directory.
    Schemas {
        /// The directory, which is made if it is missing.
        directory: PathBuf,
    },
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let command = Arguments::parse().command.unwrap_or(Command::Render {
        file: SERVICES.into(),
        diff: None,
    });
    let runtime = TokioRuntime::current();
    match command {
        Command::Render { file, diff } => {
            let rendered = web_service::pipeline(&file)?.render(&runtime).await?;
            match diff {
                None => print!("{}", rendered.yaml()?),
                Some(other) => {
                    let before = web_service::pipeline(&other)?.render(&runtime).await?;
                    print!("{}", rendered.diff_to(&before)?);
                }
            }
        }
        Command::Trace { asset, file } => {
            let rendered = web_service::pipeline(&file)?.render(&runtime).await?;
            match rendered.trace(&AssetId::new(&asset)?) {
                Some(trace) => println!("{trace}"),
                None => return Err(format!("no asset `{asset}`; `render` prints all").into()),
            }
        }
        Command::Schemas { directory } => {
            let pipeline = web_service::pipeline(SERVICES.as_ref())?;
            let written = pipeline.write_schemas(&directory)?;
            println!("wrote {written} schemas to {}", directory.display());
        }
    }
    Ok(())
}
