//! Hints that a file or a directory may have changed, from the operating system.

use std::{path::Path, time::Duration};

use futures::{
    channel::mpsc,
    stream::{self, BoxStream, StreamExt},
};
use notify::{
    ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use plane_runtime::{Runtime, TokioRuntime, timeout_at};

use super::scope::Scope;

/// After so long everything is watched anew, heard of or not: a watch can be lost, and one may not have been possible.
const AGAIN: Duration = Duration::from_secs(60);

/// So long after it was watched it is watched anew at the earliest.
const APART: Duration = Duration::from_millis(100);

/// Hints for as long as the stream lives. Whatever changed may have put another directory where one was watched: before
/// a hint is given all is watched anew, so that who reads then misses nothing.
pub(super) fn hints(path: &Path) -> BoxStream<'static, ()> {
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
            tracing::error!(path = %path.display(), %error, "watching panicked");
            None
        });
        Some(((), (path, watch)))
    })
    .boxed()
}

/// Everything is watched that what is at the end of a path depends on.
struct Watch {
    hints: mpsc::Receiver<()>,
    _watcher: RecommendedWatcher,
}

impl Watch {
    /// `None`: it is not possible now.
    fn start(path: &Path) -> Option<Self> {
        let scope = Scope::of(path);
        let (mut send, hints) = mpsc::channel(1);
        let mut late = send.clone();
        let told = scope.clone();
        let watcher = notify::recommended_watcher(move |event| {
            if is_concerned(&told, &event) {
                // A full channel holds a hint already.
                let _ = send.try_send(());
            }
        });
        let mut watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot watch; the source is read from time to time only");
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

/// Watches a directory, if it is there.
fn arm(watcher: &mut RecommendedWatcher, directory: &Path) {
    if !directory.is_dir() {
        return;
    }
    let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) else {
        return;
    };
    let directory = directory.display();
    match error.kind {
        // It has gone since, or nobody may look into it.
        ErrorKind::PathNotFound | ErrorKind::Io(_) => {
            tracing::debug!(%directory, %error, "not watched");
        }
        _ => {
            tracing::warn!(%directory, %error, "cannot watch; it is read from time to time only");
        }
    }
}

/// Whether what is read may be something else now. Events that were lost, or cannot be told, may have said so.
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
    fn events_that_were_lost_are_a_hint_and_those_of_others_are_none() {
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
