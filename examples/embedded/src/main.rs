//! `cargo run -p embedded`: a short tour. The program writes pages, freezes them, edits their source, repairs a page
//! that was changed by hand, and refuses a bad source. It prints each step and then exits.
#![allow(
    clippy::print_stdout,
    reason = "a demonstration program that prints its steps"
)]

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use annealing_enforcer::{
    AskError, Settle,
    kernel::{Command, Waiting},
};
use embedded::{
    check::Freeze,
    service::{Handle, Service},
    sites::Files,
};
use plugin_sdk::{BoxError, Failure, text::shown};
use prodspec_gen::YamlFile;
use prodspec_model::{AssetId, IncarnationNo};

/// Maximum time that one step of the tour may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let place = Place::within(directory.path())?;
    place.write("Good morning")?;
    let service = Service::new(
        YamlFile::watch(&place.source),
        Files::new(&place.pages),
        Freeze::new(&place.freeze),
    )?;
    let handle = service.handle();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(service.run(async {
        // An error means that the sender was dropped: the tour is over, or it failed. Shut down in both cases.
        let _ = stopped.await;
    }));

    handle.settle(PATIENCE).await?;
    place.show("two pages from one source")?;
    edit_while_frozen(&place, &handle).await?;
    change_by_hand(&place, &handle).await?;
    place.write("")?;
    if let Err(problems) = handle.settle(PATIENCE).await {
        println!("\nthe source is refused; the last good intent stays in force:");
        for problem in problems.to_string().lines() {
            println!("{}", shown(problem));
        }
    }
    drop(stop);
    running.await??;
    Ok(())
}

/// Edits the source while the pages are frozen, shows the delay, then removes the freeze file.
async fn edit_while_frozen(place: &Place, handle: &Handle) -> Result<(), BoxError> {
    std::fs::write(&place.freeze, "ann")?;
    place.write("Good evening")?;
    let newest = handle.generation.next_run().await.incarnation;
    let newest = newest.map_or(IncarnationNo(0), |header| header.id.no);
    let soon = handle
        .enforcer
        .wait_settled(Settle::All(newest), Duration::from_millis(500));
    if let Err(AskError::NotSettled { .. }) = soon.await {
        let index = AssetId::new("page/home/index")?;
        let explained = handle.enforcer.explain(&index).await?;
        if let Some(Waiting::Checks(delays)) = &explained.chain[0].waiting {
            let delay = &delays[0];
            // The reason may contain text from a file. `shown` escapes control characters before the terminal sees
            // them.
            let reason = shown(&delay.reason);
            println!(
                "\nthe source was edited, but the check `{}` delays the push: {reason}",
                delay.check
            );
        }
    }
    std::fs::remove_file(&place.freeze)?;
    handle.settle(PATIENCE).await?;
    Ok(place.show("after the freeze")?)
}

/// Changes a page by hand; the service restores it.
async fn change_by_hand(place: &Place, handle: &Handle) -> Result<(), BoxError> {
    let about = AssetId::new("page/home/about")?;
    std::fs::write(Files::new(&place.pages).path(&about), "changed by hand")?;
    place.show("changed by hand")?;
    // Without this command, the service would notice the change within its drift period.
    let by = plugin_sdk::By::new("the tour", "the page was changed by hand");
    let look = Command::LookNow { asset: about, by };
    handle.enforcer.tell(look).await?;
    handle.settle(PATIENCE).await?;
    Ok(place.show("repaired")?)
}

/// The paths that the tour uses, all in one temporary directory.
struct Place {
    source: PathBuf,
    freeze: PathBuf,
    pages: PathBuf,
}

impl Place {
    fn within(directory: &Path) -> io::Result<Self> {
        let place = Self {
            source: directory.join("sites.yaml"),
            freeze: directory.join("FREEZE"),
            pages: directory.join("pages"),
        };
        std::fs::create_dir(&place.pages)?;
        Ok(place)
    }

    fn write(&self, greeting: &str) -> io::Result<()> {
        let text = format!("site: home\ngreeting: '{greeting}'\npages: [index, about]\n");
        std::fs::write(&self.source, text)
    }

    fn show(&self, title: &str) -> io::Result<()> {
        println!("\n{title}:");
        let mut files: Vec<_> = std::fs::read_dir(&self.pages)?.collect::<Result<_, _>>()?;
        files.sort_by_key(std::fs::DirEntry::file_name);
        for file in files {
            let text = std::fs::read_to_string(file.path())?;
            let name = file.file_name();
            println!("  {}: {}", name.to_string_lossy(), shown(text.trim()));
        }
        Ok(())
    }
}
