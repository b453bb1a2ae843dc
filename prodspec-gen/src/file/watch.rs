//! Hints from the operating system that a file or a directory may have changed.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use control_plane_runtime::{Runtime, TokioRuntime, timeout_at};
use futures::{
    channel::mpsc,
    stream::{self, BoxStream, StreamExt},
};
use notify::{
    ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode, CreateKind, RemoveKind},
};

use super::scope::Scope;

/// The watches are set up again at least this often, with or without a hint, because a watch can be lost or may have
/// failed to start.
const AGAIN: Duration = Duration::from_secs(60);

/// The minimum time between two set-ups of the watches.
const APART: Duration = Duration::from_millis(100);

/// Hints that `path` may have changed, until the stream is dropped.
///
/// A change may have replaced a watched directory by another one. All watches are then set up again before the hint is
/// given, so that a change after the hint leads to another hint. A file that has changed needs no other watches.
pub(crate) fn hints(path: &Path) -> BoxStream<'static, ()> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let watch = Watch::start(&path);
    stream::unfold((path, watch, None), |(path, watch, since)| async move {
        let runtime = TokioRuntime::current();
        let now = runtime.now().mono;
        let since = since.unwrap_or(now);
        let watch = match watch {
            Some(mut watch) => {
                let hint = timeout_at(&runtime, since + AGAIN, watch.hints.next()).await;
                let stays = hint == Some(Some(())) && !watch.moved.load(Ordering::Acquire);
                stays.then_some(watch)
            }
            None => {
                runtime.sleep_until(since + AGAIN).await;
                None
            }
        };
        runtime.sleep_until(now + APART).await;
        if watch.is_some() {
            return Some(((), (path, watch, Some(since))));
        }
        let again = path.clone();
        let watch = tokio::task::spawn_blocking(move || Watch::start(&again)).await;
        let watch = watch.unwrap_or_else(|error| {
            tracing::error!(path = %path.display(), %error, "watching a source panicked; trying again in a minute");
            None
        });
        Some(((), (path, watch, None)))
    })
    .boxed()
}

/// The running watches on everything that the content at a path depends on.
struct Watch {
    hints: mpsc::Receiver<()>,
    /// Whether a directory or a link has changed, so that other watches are needed. Set before the hint is given.
    moved: Arc<AtomicBool>,
    _watcher: RecommendedWatcher,
}

impl Watch {
    /// Starts the watches. `None`: watching is not possible now.
    fn start(path: &Path) -> Option<Self> {
        let scope = Scope::of(path);
        let (mut send, hints) = mpsc::channel(1);
        let mut late = send.clone();
        let moved = Arc::new(AtomicBool::new(false));
        let (told, moves) = (scope.clone(), moved.clone());
        let watcher = notify::recommended_watcher(move |event| {
            let change = Change::of(&told, &event);
            if change == Change::Ways {
                moves.store(true, Ordering::Release);
            }
            if change != Change::Unrelated {
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
            moved.store(true, Ordering::Release);
            let _ = late.try_send(());
        }
        Some(Self {
            hints,
            moved,
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

/// What an event means for the content that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Unrelated,
    /// A file may have changed.
    Content,
    /// A directory or a link may have changed, so that other directories have to be watched.
    Ways,
}

impl Change {
    /// Errors and events without a path may have been about anything.
    fn of(scope: &Scope, event: &notify::Result<notify::Event>) -> Self {
        let Ok(event) = event else { return Self::Ways };
        if event.need_rescan() || event.paths.is_empty() {
            return Self::Ways;
        }
        let is_read = match event.kind {
            EventKind::Access(how) => how != AccessKind::Close(AccessMode::Write),
            _ => false,
        };
        let is_folder = matches!(
            event.kind,
            EventKind::Create(CreateKind::Folder) | EventKind::Remove(RemoveKind::Folder)
        );
        let changed = event
            .paths
            .iter()
            .filter(|path| !is_read && scope.has(path));
        let of = |path: &PathBuf| {
            let now = fs::symlink_metadata(path);
            let is_way = now.is_ok_and(|now| now.is_dir() || now.is_symlink());
            match is_folder || is_way || scope.is_way(path) {
                true => Self::Ways,
                false => Self::Content,
            }
        };
        changed.map(of).max().unwrap_or(Self::Unrelated)
    }
}

#[cfg(test)]
mod tests {
    use notify::{Event, event::Flag};

    use super::*;

    #[test]
    fn lost_events_are_hints_and_events_of_other_paths_are_not() {
        let scope = Scope::of(Path::new("/nowhere/m.yaml"));
        let change = |event: notify::Result<Event>| Change::of(&scope, &event);
        let of = |kind, path: &str| Ok(Event::new(kind).add_path(path.into()));
        let below = |kind| change(of(kind, "/nowhere/m.yaml/n.yaml"));
        assert_eq!(below(EventKind::Any), Change::Content);
        assert_eq!(below(EventKind::Create(CreateKind::Folder)), Change::Ways);
        assert_eq!(below(EventKind::Remove(RemoveKind::Folder)), Change::Ways);
        let close = |mode| EventKind::Access(AccessKind::Close(mode));
        assert_eq!(below(close(AccessMode::Write)), Change::Content);
        assert_eq!(below(close(AccessMode::Read)), Change::Unrelated);
        let on_the_way = change(of(EventKind::Any, "/nowhere"));
        assert_eq!(on_the_way, Change::Ways);
        let aside = change(of(EventKind::Any, "/nowhere/n.yaml"));
        assert_eq!(aside, Change::Unrelated);
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert_eq!(change(Ok(lost)), Change::Ways);
        assert_eq!(change(Ok(Event::new(EventKind::Any))), Change::Ways);
        let failed = notify::Error::generic("overflow");
        assert_eq!(change(Err(failed)), Change::Ways);
    }
}
