//! Hints from the operating system that a file or a directory may have changed.

use std::{path::Path, time::Duration};

use control_plane_runtime::{Runtime, TokioRuntime, timeout_at};
use futures::{
    channel::mpsc,
    stream::{self, BoxStream, StreamExt},
};
use notify::{
    ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};

use super::scope::Scope;

/// The watches are set up again at least this often, with or without a hint, because a watch can be lost or may have
/// failed to start.
const AGAIN: Duration = Duration::from_secs(60);

/// The minimum time between two set-ups of the watches.
const APART: Duration = Duration::from_millis(100);

/// Hints that `path` may have changed, until the stream is dropped.
///
/// A change may have replaced a watched directory by another one. All watches are therefore set up again before each
/// hint is given, so that a change after the hint leads to another hint.
pub(crate) fn hints(path: &Path) -> BoxStream<'static, ()> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let watch = Watch::start(&path);
    stream::unfold((path, watch), |(path, watch)| async move {
        let runtime = TokioRuntime::current();
        let from = runtime.now().mono;
        match watch {
            Some(mut watch) => drop(timeout_at(&runtime, from + AGAIN, watch.hints.next()).await),
            None => runtime.sleep(AGAIN).await,
        }
        runtime.sleep_until(from + APART).await;
        let again = path.clone();
        let watch = tokio::task::spawn_blocking(move || Watch::start(&again)).await;
        let watch = watch.unwrap_or_else(|error| {
            tracing::error!(path = %path.display(), %error, "watching a source panicked; trying again in a minute");
            None
        });
        Some(((), (path, watch)))
    })
    .boxed()
}

/// The running watches on everything that the content at a path depends on.
struct Watch {
    hints: mpsc::Receiver<()>,
    _watcher: RecommendedWatcher,
}

impl Watch {
    /// Starts the watches. `None`: watching is not possible now.
    fn start(path: &Path) -> Option<Self> {
        let scope = Scope::of(path);
        let (mut send, hints) = mpsc::channel(1);
        let mut late = send.clone();
        let told = scope.clone();
        let watcher = notify::recommended_watcher(move |event| {
            if is_concerned(&told, &event) {
                // A full channel already contains a hint.
                let _ = send.try_send(());
            }
        });
        let mut watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot watch a source; reading it once a minute");
                return None;
            }
        };
        for directory in scope.directories() {
            arm(&mut watcher, directory);
        }
        if Scope::of(path) != scope {
            let _ = late.try_send(());
        }
        Some(Self {
            hints,
            _watcher: watcher,
        })
    }
}

/// Watches a directory. Does nothing if the directory does not exist.
fn arm(watcher: &mut RecommendedWatcher, directory: &Path) {
    if !directory.is_dir() {
        return;
    }
    let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) else {
        return;
    };
    let directory = directory.display();
    match error.kind {
        // The directory has been removed, or this process has no right to read it.
        ErrorKind::PathNotFound | ErrorKind::Io(_) => {
            tracing::debug!(%directory, %error, "a directory of a source is not watched");
        }
        _ => {
            tracing::warn!(%directory, %error, "cannot watch a directory of a source; reading the source once a minute");
        }
    }
}

/// Whether the content that is read may have changed. True for errors and for events without a path, because such
/// events may have been about this source.
fn is_concerned(scope: &Scope, event: &notify::Result<notify::Event>) -> bool {
    let Ok(event) = event else { return true };
    if event.need_rescan() || event.paths.is_empty() {
        return true;
    }
    let read = match event.kind {
        EventKind::Access(how) => how != AccessKind::Close(AccessMode::Write),
        _ => false,
    };
    !read && event.paths.iter().any(|changed| scope.has(changed))
}

#[cfg(test)]
mod tests {
    use notify::{Event, event::Flag};

    use super::*;

    #[test]
    fn lost_events_are_hints_and_events_of_other_paths_are_not() {
        let scope = Scope::of(Path::new("/nowhere/m.yaml"));
        let is_concerned = |event: notify::Result<Event>| is_concerned(&scope, &event);
        let of = |kind, path: &str| Ok(Event::new(kind).add_path(path.into()));
        assert!(is_concerned(of(EventKind::Any, "/nowhere/m.yaml")));
        assert!(!is_concerned(of(EventKind::Any, "/nowhere/n.yaml")));
        let close = |mode| EventKind::Access(AccessKind::Close(mode));
        assert!(is_concerned(of(
            close(AccessMode::Write),
            "/nowhere/m.yaml"
        )));
        assert!(!is_concerned(of(
            close(AccessMode::Read),
            "/nowhere/m.yaml"
        )));
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert!(is_concerned(Ok(lost)));
        assert!(is_concerned(Ok(Event::new(EventKind::Any))));
        assert!(is_concerned(Err(notify::Error::generic("overflow"))));
    }
}
