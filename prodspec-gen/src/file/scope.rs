//! The paths on which the content of a source depends: all directories and links in its path and below it.

use std::{
    collections::{BTreeSet, VecDeque},
    ffi::OsStr,
    fs,
    path::{Component, Path, PathBuf},
};

/// Maximum nesting of subdirectories, in levels.
pub(crate) const MAX_LEVELS: usize = 16;

/// Maximum number of links that are followed in one path, as on most systems.
const MOST_LINKS: usize = 40;

/// The files, links and directories whose change can change the content that is read at a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// Every directory, link and file on the way to the path, and on the way to the targets of the links below it. Each
    /// is named by its parent directory without links.
    passed: BTreeSet<PathBuf>,
    /// The target of the path, without links. Everything below it belongs to the scope.
    end: PathBuf,
    /// The directories at and below the target that are read.
    folders: BTreeSet<PathBuf>,
}

impl Scope {
    /// The scope of an absolute path. The path need not exist.
    pub(super) fn of(path: &Path) -> Self {
        let mut scope = Self::default();
        scope.end = scope.pass(path);
        for link in scope.look_below() {
            scope.pass(&link);
        }
        scope
    }

    /// The directories to watch. Each comes after its parent directories.
    pub(super) fn directories(&self) -> BTreeSet<&Path> {
        let holders = self.passed.iter().filter_map(|passed| passed.parent());
        holders
            .chain(self.folders.iter().map(PathBuf::as_path))
            .collect()
    }

    /// Whether a change of `changed` can change the content that is read.
    pub(super) fn has(&self, changed: &Path) -> bool {
        changed.starts_with(&self.end) || self.passed.contains(changed)
    }

    /// Whether a path was a directory or a link of the scope, or one on the way to it.
    pub(super) fn is_way(&self, path: &Path) -> bool {
        path != self.end && self.passed.contains(path) || self.folders.contains(path)
    }

    /// Follows a path, adds everything on the way to the scope, and returns its target. If the links form a cycle, the
    /// target is a link.
    fn pass(&mut self, path: &Path) -> PathBuf {
        let mut ahead: VecDeque<_> = path.components().map(owned).collect();
        let mut here = PathBuf::new();
        let mut links = 0;
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
            match passed.read_link() {
                Ok(target) if links < MOST_LINKS => {
                    links += 1;
                    let target = target.components().rev().map(owned);
                    target.for_each(|next| ahead.push_front(next));
                }
                _ => here.clone_from(&passed),
            }
            self.passed.insert(passed);
        }
        here
    }

    /// Adds the directories at and below the target to the scope, and returns the links in them.
    fn look_below(&mut self) -> Vec<PathBuf> {
        let mut links = Vec::new();
        let mut ahead = vec![(self.end.clone(), 0)];
        while let Some((folder, level)) = ahead.pop() {
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries
                .flatten()
                .filter(|entry| !is_hidden(&entry.file_name()))
            {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && level < MAX_LEVELS => {
                        ahead.push((entry.path(), level + 1));
                    }
                    Ok(kind) if kind.is_symlink() => links.push(entry.path()),
                    _ => {}
                }
            }
            self.folders.insert(folder);
        }
        links
    }
}

fn owned(component: Component<'_>) -> PathBuf {
    component.as_os_str().into()
}

/// Whether an entry of a directory is hidden by its name, and so ignored.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn scope_of_a_path_has_all_directories_and_links_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a/b/..", root.join("up")).unwrap();
        symlink(root.join("up/b"), root.join("b")).unwrap();
        let scope = Scope::of(&root.join("b/./none/m.yaml"));
        assert_eq!(scope.end, root.join("a/b/none/m.yaml"));
        let within = scope
            .directories()
            .into_iter()
            .filter_map(|it| it.strip_prefix(&root).ok());
        let within: Vec<_> = within.map(|it| it.to_str().unwrap()).collect();
        assert_eq!(within, ["", "a", "a/b", "a/b/none"]);
        for passed in [
            "",
            "b",
            "up",
            "a",
            "a/b",
            "a/b/none",
            "a/b/none/m.yaml",
            "a/b/none/m.yaml/x",
        ] {
            assert!(scope.has(&root.join(passed)), "{passed}");
        }
        for aside in ["c", "a/c", "a/b/c", "a/b/none/n.yaml"] {
            assert!(!scope.has(&root.join(aside)), "{aside}");
        }
    }

    #[test]
    fn scope_of_cyclic_links_ends() {
        let dir = tempfile::tempdir().unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(
            Scope::of(&dir.path().join("loop/m.yaml"))
                .end
                .ends_with("loop/m.yaml")
        );
    }

    #[test]
    fn scope_of_a_directory_has_its_subdirectories_and_link_targets() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["conf/eu", "conf/.git/x", "far/away"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        symlink("../../far/away/m.yaml", root.join("conf/eu/m.yaml")).unwrap();
        symlink("../far", root.join("conf/far")).unwrap();
        let scope = Scope::of(&root.join("conf"));
        let directories = scope.directories();
        for watched in ["", "conf", "conf/eu", "far", "far/away"] {
            assert!(directories.contains(&*root.join(watched)), "{watched}");
        }
        assert!(!directories.contains(&*root.join("conf/.git")));
        assert!(scope.has(&root.join("far/away/m.yaml")));
        assert!(!scope.has(&root.join("far/away/n.yaml")));
    }
}
