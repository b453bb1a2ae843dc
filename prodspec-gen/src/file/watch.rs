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
        Ok((watcher, hints)) => hints
            .map(move |()| {
                let _alive = &watcher;
            })
            .boxed(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot watch; the source is read from time to time only");
            futures::stream::pending().boxed()
        }
    }
}

/// Watches the directory that holds `path`, since an editor may replace the file; and all below, if it is a directory.
fn start(path: &Path) -> notify::Result<(RecommendedWatcher, mpsc::Receiver<()>)> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    let (mut send, hints) = mpsc::channel(1);
    let watched: [PathBuf; 2] = [path.clone(), real.clone()];
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let concerns = event.is_ok_and(|event| {
            !matches!(event.kind, EventKind::Access(_))
                && event
                    .paths
                    .iter()
                    .any(|changed| watched.iter().any(|watched| changed.starts_with(watched)))
        });
        if concerns {
            // A full channel holds a hint already.
            let _ = send.try_send(());
        }
    })?;
    if real.is_dir() {
        watcher.watch(&real, RecursiveMode::Recursive)?;
    }
    let parents = [path.parent(), real.parent()];
    let mut seen: Option<&Path> = None;
    for parent in parents.into_iter().flatten() {
        if seen != Some(parent) {
            watcher.watch(parent, RecursiveMode::NonRecursive)?;
            seen = Some(parent);
        }
    }
    Ok((watcher, hints))
}
