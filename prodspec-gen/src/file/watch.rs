//! Hints that a file or a directory may have changed, from the operating system.

use std::path::Path;

use futures::{
    channel::mpsc,
    stream::{self, BoxStream, StreamExt},
};
use notify::{ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::way::Way;

/// Hints for as long as the stream lives. Whatever changed on the way may have put another directory in its place, and
/// that is watched before the hint is given: who reads then misses nothing.
pub(super) fn hints(path: &Path) -> BoxStream<'static, ()> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let watch = match Watch::start(&path) {
        Ok(watch) => watch,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot watch; the source is read from time to time only");
            return stream::pending().boxed();
        }
    };
    stream::unfold((path, watch), |(path, mut watch)| async move {
        watch.hints.next().await?;
        let anew = tokio::task::spawn_blocking(move || {
            match Watch::start(&path) {
                Ok(anew) => watch = anew,
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot watch it anew");
                }
            }
            (path, watch)
        });
        Some(((), anew.await.ok()?))
    })
    .boxed()
}

/// Everything on the way to a path is watched.
struct Watch {
    hints: mpsc::Receiver<()>,
    _watcher: RecommendedWatcher,
}

impl Watch {
    fn start(path: &Path) -> notify::Result<Self> {
        let way = Way::to(path);
        let (mut send, hints) = mpsc::channel(1);
        let mut late = send.clone();
        let told = way.clone();
        let mut watcher = notify::recommended_watcher(move |event| {
            if is_concerned(&told, &event) {
                // A full channel holds a hint already.
                let _ = send.try_send(());
            }
        })?;
        for directory in way.directories() {
            arm(&mut watcher, directory, RecursiveMode::NonRecursive)?;
        }
        if way.end.is_dir() {
            arm(&mut watcher, &way.end, RecursiveMode::Recursive)?;
        }
        if Way::to(path) != way {
            let _ = late.try_send(());
        }
        Ok(Self {
            hints,
            _watcher: watcher,
        })
    }
}

/// Watches a directory, unless it is not there, or nobody may look into it: then the one that it is in tells enough.
fn arm(
    watcher: &mut RecommendedWatcher,
    directory: &Path,
    mode: RecursiveMode,
) -> notify::Result<()> {
    match watcher.watch(directory, mode) {
        Err(error) if matches!(error.kind, ErrorKind::PathNotFound | ErrorKind::Io(_)) => {
            tracing::debug!(%error, "not watched");
            Ok(())
        }
        watched => watched,
    }
}

/// Whether what is at the end of the way may be something else now. Events that were lost, or cannot be told, may have
/// said so.
fn is_concerned(way: &Way, event: &notify::Result<notify::Event>) -> bool {
    let Ok(event) = event else { return true };
    if event.need_rescan() || event.paths.is_empty() {
        return true;
    }
    let read = matches!(event.kind, EventKind::Access(_));
    !read && event.paths.iter().any(|changed| way.passes(changed))
}

#[cfg(test)]
mod tests {
    use notify::{Event, event::Flag};

    use super::*;

    #[test]
    fn events_that_were_lost_are_a_hint_and_those_of_others_are_none() {
        let way = Way::to(Path::new("/nowhere/m.yaml"));
        let is_concerned = |event: notify::Result<Event>| is_concerned(&way, &event);
        let of = |path: &str| Ok(Event::new(EventKind::Any).add_path(path.into()));
        assert!(is_concerned(of("/nowhere/m.yaml")));
        assert!(!is_concerned(of("/nowhere/n.yaml")));
        assert!(is_concerned(Ok(
            Event::new(EventKind::Other).set_flag(Flag::Rescan)
        )));
        assert!(is_concerned(Ok(Event::new(EventKind::Any))));
        assert!(is_concerned(Err(notify::Error::generic("overflow"))));
    }
}
