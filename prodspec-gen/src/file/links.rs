//! Resolves the links in the paths of files and follows each link once. All files behind a link thus come from the same
//! target, even if the link is changed during the reading. The operating system would follow the link again for each
//! file.

use std::{
    collections::{BTreeMap, VecDeque},
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Maximum number of links in one path, as on most systems.
const MOST_LINKS: usize = 40;

/// The links that were looked up, with their targets. `None`: the path is not a link.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Links(BTreeMap<PathBuf, Option<PathBuf>>);

impl Links {
    /// The target of `path`, as a path without links. The target need not exist.
    ///
    /// # Errors
    /// When the links form a cycle.
    pub(crate) fn resolve(&mut self, path: &Path) -> io::Result<PathBuf> {
        let path = std::path::absolute(path)?;
        let mut ahead: VecDeque<PathBuf> = path.components().map(owned).collect();
        let (mut here, mut links) = (PathBuf::new(), 0);
        while let Some(next) = ahead.pop_front() {
            match next.components().next() {
                Some(Component::Normal(_)) => {}
                Some(Component::ParentDir) => {
                    here.pop();
                    continue;
                }
                _ => {
                    here.push(next);
                    continue;
                }
            }
            let passed = here.join(next);
            let Some(target) = self.target(&passed) else {
                here = passed;
                continue;
            };
            links += 1;
            if links > MOST_LINKS {
                return Err(io::Error::other("its links form a cycle"));
            }
            let target = target.components().rev().map(owned);
            target.for_each(|next| ahead.push_front(next));
        }
        Ok(here)
    }

    /// Every path that was looked up, whether it is a link or not: all directories and links on the way to the targets, and
    /// the targets.
    #[cfg(target_os = "linux")]
    pub(super) fn passed(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// The target of the link at `path`. `None`: there is no link.
    fn target(&mut self, path: &Path) -> Option<&Path> {
        let known = self.0.entry(path.to_owned());
        known.or_insert_with(|| fs::read_link(path).ok()).as_deref()
    }
}

fn owned(component: Component<'_>) -> PathBuf {
    component.as_os_str().into()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn r44_link_is_followed_once_for_all_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        symlink("1", root.join("link")).unwrap();
        for file in ["a", "b"] {
            symlink(format!("./x/../link/{file}"), root.join(file)).unwrap();
        }
        let mut links = Links::default();
        assert_eq!(links.resolve(&root.join("a")).unwrap(), root.join("1/a"));
        symlink("2", root.join("new")).unwrap();
        fs::rename(root.join("new"), root.join("link")).unwrap();
        assert_eq!(links.resolve(&root.join("b")).unwrap(), root.join("1/b"));
        let mut anew = Links::default();
        assert_eq!(anew.resolve(&root.join("b")).unwrap(), root.join("2/b"));
    }

    #[test]
    fn cyclic_links_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let said = Links::default().resolve(&dir.path().join("loop/m.yaml"));
        assert!(said.unwrap_err().to_string().contains("form a cycle"));
    }
}
