//! Hints that a file or a directory may have changed, from the operating system.

use std::path::{Path, PathBuf};

use futures::{
    channel::mpsc,
    stream::{BoxStream, StreamExt},
};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Hints for as long as the stream lives. Without a watcher there are none, and the source is read from time to time.
pub(super) fn hints(path: &Path) -> BoxStream<'static, ()> {
    match start(path) {
        Ok((mut watch, hints)) => hints
            .map(move |()| {
                // What was replaced, or has only come, is another directory: nobody watches that yet.
                if let Err(error) = watch.arm() {
                    tracing::debug!(%error, "cannot watch all of it now");
                }
            })
            .boxed(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot watch; the source is read from time to time only");
            futures::stream::pending().boxed()
        }
    }
}

fn start(path: &Path) -> notify::Result<(Watch, mpsc::Receiver<()>)> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (mut send, hints) = mpsc::channel(1);
    let mut place = Place::new(path.clone());
    let watcher = notify::recommended_watcher(move |event| {
        if place.is_concerned(&event) {
            // A full channel holds a hint already.
            let _ = send.try_send(());
        }
    })?;
    let mut watch = Watch { watcher, path };
    watch.arm()?;
    Ok((watch, hints))
}

/// What the operating system watches.
struct Watch {
    watcher: RecommendedWatcher,
    path: PathBuf,
}

impl Watch {
    /// Watches the directory that holds the path, since an editor may replace the file; and all below, if it is a
    /// directory.
    fn arm(&mut self) -> notify::Result<()> {
        let real = resolved(&self.path);
        let mut seen: Option<&Path> = None;
        for parent in [self.path.parent(), real.parent()].into_iter().flatten() {
            if seen != Some(parent) {
                self.watcher.watch(parent, RecursiveMode::NonRecursive)?;
                seen = Some(parent);
            }
        }
        if real.is_dir() {
            self.watcher.watch(&real, RecursiveMode::Recursive)?;
        }
        Ok(())
    }
}

/// A path, and where it led when it was last looked at.
struct Place {
    path: PathBuf,
    real: PathBuf,
}

impl Place {
    fn new(path: PathBuf) -> Self {
        let real = resolved(&path);
        Self { path, real }
    }

    /// Whether what is there may be something else now. Events that were lost, or cannot be told, may have said so; and a
    /// link on the way may lead elsewhere.
    fn is_concerned(&mut self, event: &notify::Result<notify::Event>) -> bool {
        let Ok(event) = event else { return true };
        if event.need_rescan() || event.paths.is_empty() {
            return true;
        }
        if matches!(event.kind, EventKind::Access(_)) {
            return false;
        }
        let real = resolved(&self.path);
        let moved = std::mem::replace(&mut self.real, real) != self.real;
        let below = |changed: &PathBuf| {
            [&self.path, &self.real]
                .into_iter()
                .any(|watched| changed.starts_with(watched))
        };
        moved || event.paths.iter().any(below)
    }
}

/// Where a path leads to; the path itself while it leads nowhere.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use notify::{Event, event::Flag};

    use super::*;

    #[test]
    fn events_that_were_lost_are_a_hint_and_those_of_others_are_none() {
        let mut place = Place::new("/nowhere/m.yaml".into());
        let of = |path: &str| Ok(Event::new(EventKind::Any).add_path(path.into()));
        assert!(place.is_concerned(&of("/nowhere/m.yaml")));
        assert!(!place.is_concerned(&of("/nowhere/n.yaml")));
        assert!(place.is_concerned(&Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan))));
        assert!(place.is_concerned(&Ok(Event::new(EventKind::Any))));
        assert!(place.is_concerned(&Err(notify::Error::generic("overflow"))));
    }
}
