//! `check FILE`: shows the incarnation that a manifest would give, or all its problems. It changes nothing: it asks a
//! running control plane; if none is running, it checks against a copy of the store.

use std::{fs, io, path::Path, process::ExitCode};

use control_plane::{
    DryRun, Error, Outcome,
    prelude::{MemoryStore, Problems, SourceOfTruth, SqliteStore, Store, YamlFile},
};

use crate::{
    control::client::{self, Control},
    manifest,
    place::Place,
    program::{Failure, this_program},
    service::Service,
    voice::{say, say_all},
};

/// Prints the incarnation that `file` would give, or its problems. The exit code is a failure if there are problems.
///
/// # Errors
/// When the state directory cannot be read, or the control plane does not answer.
pub(super) async fn check<S: Service>(place: &Place, file: &Path) -> Result<ExitCode, Failure> {
    match would_give::<S>(place, file).await? {
        Ok(checked) => {
            show(file, &checked);
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            let many = match problems.len() {
                1 => "1 problem".to_owned(),
                n => format!("{n} problems"),
            };
            say(format_args!("{} has {many}:", file.display()));
            say_all(problems.iter());
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn would_give<S: Service>(
    place: &Place,
    file: &Path,
) -> Result<Result<DryRun, Problems>, Failure> {
    // Apply the size limits first, whether or not a control plane is running.
    if let Err(problems) = manifest::source(YamlFile::new(file)).read().await {
        return Ok(Err(problems));
    }
    if let Ok(control) = Control::find(place).await {
        match control.check(read(file)?).await {
            Ok(checked) => return Ok(Ok(checked)),
            Err(client::Error::Problems(problems)) => return Ok(Err(problems)),
            // The control plane ended in the meantime: check against its store.
            Err(client::Error::NotRunning(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if !place.store().exists() {
        return with_store::<S>(place, file, MemoryStore::new()).await;
    }
    let copy = tempfile::tempdir()?;
    for entry in fs::read_dir(place.store())? {
        let entry = entry?;
        fs::copy(entry.path(), copy.path().join(entry.file_name()))?;
    }
    with_store::<S>(place, file, SqliteStore::open(copy.path())?).await
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    io::Read::read_to_end(
        &mut io::Read::take(fs::File::open(file)?, manifest::LIMIT),
        &mut text,
    )?;
    Ok(text)
}

async fn with_store<S: Service>(
    place: &Place,
    file: &Path,
    store: impl Store,
) -> Result<Result<DryRun, Problems>, Failure> {
    let plane = S::plane(place, this_program()?, store)?;
    let source = manifest::source(YamlFile::new(file));
    match plane.handle().dry_run(&[&source]).await {
        Ok(checked) => Ok(Ok(checked)),
        Err(Error::Refused(problems)) => Ok(Err(problems)),
        Err(error) => Err(error.into()),
    }
}

fn show(file: &Path, checked: &DryRun) {
    let DryRun {
        incarnation,
        digest,
        parent,
        assets,
        changes,
    } = checked;
    say(format_args!(
        "{} is valid: it gives {incarnation}, {} assets, digest {digest}",
        file.display(),
        assets.len()
    ));
    for asset in assets {
        let references: Vec<&str> = asset.references.iter().map(|id| id.as_str()).collect();
        let arrow = if references.is_empty() { "" } else { " -> " };
        say(format_args!(
            "  {:<14} {}{arrow}{}",
            asset.id.as_str(),
            asset.type_name,
            references.join(", ")
        ));
    }
    match parent {
        Some(no) => say(format_args!(
            "changes from the incarnation in force, @{no}:"
        )),
        None => say("no incarnation is in force; all assets are new:"),
    }
    for change in changes {
        let sign = match change.outcome {
            Outcome::Added => '+',
            Outcome::Removed => '-',
            _ => '~',
        };
        say(format_args!("  {sign} {}", change.id));
    }
    if changes.is_empty() {
        say("  none");
    }
}
