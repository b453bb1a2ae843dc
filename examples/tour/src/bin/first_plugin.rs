//! A first plugin: the control plane keeps notices, small text files in a directory, as a YAML file says.
//!
//! The plugin says how to compare a notice with its file, and how to write the file. When to do either is decided by
//! the control plane: the program starts with an empty directory, edits the YAML file, and then spoils a notice by hand.
//!
//! Run it with `cargo run -p tour --bin first_plugin`.
#![allow(clippy::print_stdout, reason = "a program that prints its steps")]

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use control_plane::{prelude::*, sdk::text::shown};
use serde::{Deserialize, Serialize};

/// What an asset says about its notice. Any type that serde reads and writes will do.
#[derive(Serialize, Deserialize)]
struct Notice {
    text: String,
}

impl Message for Notice {
    const TYPE: &'static str = "notices.v1.Notice";
}

/// Makes one asset of each entry of `notices.yaml`, which maps names to texts.
struct Notices;

impl Generator for Notices {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("notices", "notices.yaml").makes::<Notice>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let notices: BTreeMap<String, String> = document.read()?;
            for (name, text) in notices {
                let id = AssetId::new(&format!("notice/{name}"))?;
                let asset = Asset::builder(id).payload(&Notice { text })?;
                out.asset(asset, document.provenance())?;
            }
        }
        Ok(())
    }
}

/// The plugin: production is a directory with one file per notice.
#[derive(Clone)]
struct NoticeBoard {
    directory: PathBuf,
}

impl NoticeBoard {
    /// Names in production derive from asset ids, so the plugin needs no list of what it made.
    fn file(&self, id: &AssetId) -> PathBuf {
        self.directory.join(id.as_str().replace('/', "+"))
    }

    fn there(&self, id: &AssetId) -> Result<Option<String>, plugin::Error> {
        let file = self.file(id);
        match file.try_exists().map_err(failed)? {
            true => Ok(Some(std::fs::read_to_string(&file).map_err(failed)?)),
            false => Ok(None),
        }
    }
}

/// A file that cannot be read or written: try again soon.
fn failed(error: std::io::Error) -> plugin::Error {
    plugin::Error::transient(error.to_string())
}

/// The intent of a notice. Content that does not fit its type is not tried again.
fn text(asset: &Asset) -> Result<String, plugin::Error> {
    let notice = asset.payload::<Notice>();
    let notice = notice.map_err(|error| plugin::Error::permanent(error.to_string()))?;
    Ok(notice.text)
}

#[async_trait]
impl AssetPlugin for NoticeBoard {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let (intended, there) = (text(&asset)?, self.there(request.asset_id())?);
        if there.as_ref() == Some(&intended) {
            return Ok(Diff::in_sync());
        }
        let text = FieldChange::new("text", there, intended);
        let change = Change::new(&asset, "write the notice", vec![text], Effects::default());
        Ok(Diff::differs(change))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let text = text(&request.asset()?)?;
        std::fs::write(self.file(request.asset_id()), text).map_err(failed)?;
        println!(
            "  pushed {}, because of {:?}",
            request.asset_id(),
            request.cause
        );
        Ok(Pushed::Done)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let source = directory.path().join("notices.yaml");
    let board = NoticeBoard {
        directory: directory.path().to_path_buf(),
    };
    std::fs::write(&source, "{door: please knock, wall: wet paint}")?;

    let plane = ControlPlane::builder("notices")
        .store(SqliteStore::open(directory.path().join("state"))?)
        .source(YamlFile::watch(&source))
        .generator(Notices)
        .validators(validators::standard())
        .asset_plugin::<Notice>(board.clone())
        .build()?;
    let handle = plane.handle();
    tokio::spawn(plane.run(std::future::pending()));
    let within = Duration::from_secs(30);

    println!("two notices, nothing in production yet:");
    println!("  settled at {}", handle.settle(within).await?);

    println!("one of them is edited:");
    std::fs::write(&source, "{door: please knock, wall: dry again}")?;
    println!("  settled at {}", handle.settle(within).await?);

    println!("the other one is spoiled by hand:");
    let door = AssetId::new("notice/door")?;
    std::fs::write(board.file(&door), "go away")?;
    // Within the drift period, 5 minutes by default, the control plane would find it without this command.
    handle
        .look_now(&door, By::new("ann", "it was spoiled"))
        .await?;
    println!("  settled at {}", handle.settle(within).await?);
    println!(
        "  the notice says: {}",
        shown(&board.there(&door)?.unwrap_or_default())
    );
    Ok(())
}
