//! `down`: removes everything that `run` started and stored. An edited manifest is kept.

use std::{fs, io, path::Path, time::Duration};

use crate::{
    control::{
        Word,
        client::{Control, Error},
    },
    place::Place,
    processes,
    production::{api::Caller, client::Cell},
    program::Failure,
    service::Service,
    voice::say,
};

/// Maximum time for the control plane or a cell to exit. After that, its process is killed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two checks whether a process has exited.
const REST: Duration = Duration::from_millis(20);

/// Stops the control plane of `place`, turns every cell down, kills the press, and removes the files of the state directory.
///
/// # Errors
/// When the control plane refuses to stop, or a file cannot be removed.
pub(super) async fn down<S: Service>(place: &Place) -> Result<(), Failure> {
    if !place.dir().exists() {
        say(format_args!(
            "{} does not exist: nothing to do",
            place.dir().display()
        ));
        return Ok(());
    }
    let place = Place::new(place.dir().canonicalize()?);
    stop_controlling(&place).await?;
    for name in place.cell_names()? {
        turn_down(&place, &name).await;
        say(format_args!("cell {name} is gone"));
    }
    if let Some(pid) = processes::press(&place.press()) {
        processes::kill(pid);
        gone(pid).await;
        say("the press is gone");
    }
    remove(&place, S::MANIFEST)?;
    Ok(())
}

async fn stop_controlling(place: &Place) -> Result<(), Failure> {
    let control = match Control::find(place).await {
        Ok(control) => control,
        Err(Error::NotRunning(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    match control.tell(&Word::Stop).await {
        // Without an answer it ended in the meantime, or it is ending and has closed its socket already.
        Ok(()) | Err(Error::NotRunning(_)) => {}
        Err(error) => return Err(error.into()),
    }
    if let Some(pid) = control.pid() {
        gone(pid).await;
    }
    say("stopped the control plane");
    Ok(())
}

async fn turn_down(place: &Place, name: &str) {
    let dir = place.cell(name);
    if let Ok(cell) = Cell::connect(&dir, name).await {
        // The result does not matter: the process table shows below whether the cell exited.
        let _ = tokio::time::timeout(PATIENCE, cell.turn_down(&Caller::default())).await;
    }
    if let Some(pid) = processes::cell(name, &dir) {
        gone(pid).await;
    }
}

/// Waits until a process has exited, and kills it after [`PATIENCE`].
async fn gone(pid: u32) {
    let waiting = async {
        while processes::running(pid) {
            tokio::time::sleep(REST).await;
        }
    };
    if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
        processes::kill(pid);
    }
}

fn remove(place: &Place, unedited: &str) -> io::Result<()> {
    remove_all(&place.cells())?;
    remove_all(&place.press())?;
    remove_all(&place.store())?;
    let database = place.database();
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut file = database.clone().into_os_string();
        file.push(end);
        remove_file(Path::new(&file))?;
    }
    remove_file(&place.control())?;
    remove_file(&place.alerts())?;
    let manifest = place.manifest();
    match fs::read_to_string(&manifest) {
        Ok(text) if text == unedited => remove_file(&manifest)?,
        Ok(_) => say(format_args!("kept your manifest: {}", manifest.display())),
        Err(_) => {}
    }
    // The directory stays if the user has other files in it.
    if fs::remove_dir(place.dir()).is_ok() {
        say(format_args!("removed {}", place.dir().display()));
    }
    Ok(())
}

fn remove_file(path: &Path) -> io::Result<()> {
    absent_is_fine(fs::remove_file(path))
}

fn remove_all(path: &Path) -> io::Result<()> {
    absent_is_fine(fs::remove_dir_all(path))
}

fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
