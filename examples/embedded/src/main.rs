//! `cargo run -p embedded`: pages written, frozen, edited, repaired. Says what it does and ends by itself.
#![allow(
    clippy::print_stdout,
    reason = "a program whose purpose is to tell what it does"
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
use plugin_sdk::{BoxError, text::shown};
use prodspec_gen::YamlFile;
use prodspec_model::{AssetId, IncarnationNo};

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
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
        // An error means that nobody will ask for more either.
        let _ = stopped.await;
    }));

    handle.settle(PATIENCE).await?;
    place.show("two pages from one source")?;
    edit_while_frozen(&place, &handle).await?;
    change_by_hand(&place, &handle).await?;
    place.write("")?;
    if let Err(problems) = handle.settle(PATIENCE).await {
        println!("\nrefused, the last good intent stays in force:");
        for problem in problems.to_string().lines() {
            println!("{}", shown(problem));
        }
    }
    drop(stop);
    running.await??;
    Ok(())
}

/// The check keeps the service away, and says so; then it does not.
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
            // Text that others wrote is shown as text: a terminal would obey its escape sequences.
            let reason = shown(&delay.reason);
            println!("\nedited, but the check {} says: {reason}", delay.check);
        }
    }
    std::fs::remove_file(&place.freeze)?;
    handle.settle(PATIENCE).await?;
    Ok(place.show("after the freeze")?)
}

/// What somebody changes behind the service's back is put back.
async fn change_by_hand(place: &Place, handle: &Handle) -> Result<(), BoxError> {
    let about = AssetId::new("page/home/about")?;
    std::fs::write(Files::new(&place.pages).path(&about), "changed by hand")?;
    place.show("changed by hand")?;
    // Without being told, the service would notice within its drift period.
    let by = annealing_enforcer::store::records::By::new("the tour", "it was changed by hand");
    let look = Command::LookNow { asset: about, by };
    handle.enforcer.tell(look).await?;
    handle.settle(PATIENCE).await?;
    Ok(place.show("put back")?)
}

/// Where everything is.
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
