//! Where a path leads to, and through what.

use std::{
    collections::{BTreeSet, VecDeque},
    path::{Component, Path, PathBuf},
};

/// How many links are followed, as most systems do.
const MOST_LINKS: usize = 40;

/// The way from the root to where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// Where it leads, without links; it need not be there.
    pub(super) end: PathBuf,
    /// Every directory, link and file that it passes, `end` among them; each in a directory that is passed without links.
    passes: BTreeSet<PathBuf>,
}

impl Way {
    /// The way of an absolute path. One that goes in circles ends at a link.
    pub(super) fn to(path: &Path) -> Self {
        let mut ahead: VecDeque<_> = path.components().map(owned).collect();
        let mut passes = BTreeSet::new();
        let mut end = PathBuf::new();
        let mut links = 0;
        while let Some(next) = ahead.pop_front() {
            match next.components().next() {
                Some(Component::Normal(_)) => {}
                Some(Component::ParentDir) => {
                    end.pop();
                    continue;
                }
                _ => {
                    end.push(next);
                    continue;
                }
            }
            let passed = end.join(next);
            match passed.read_link() {
                Ok(target) if links < MOST_LINKS => {
                    links += 1;
                    target
                        .components()
                        .rev()
                        .map(owned)
                        .for_each(|next| ahead.push_front(next));
                }
                _ => end.clone_from(&passed),
            }
            passes.insert(passed);
        }
        Self { end, passes }
    }

    /// The directories that are passed, each after those it is in.
    pub(super) fn directories(&self) -> BTreeSet<&Path> {
        self.passes
            .iter()
            .filter_map(|passed| passed.parent())
            .collect()
    }

    /// Whether a change of `changed` may change what is at the end.
    pub(super) fn passes(&self, changed: &Path) -> bool {
        changed.starts_with(&self.end) || self.passes.contains(changed)
    }
}

fn owned(component: Component<'_>) -> PathBuf {
    component.as_os_str().into()
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_way_leads_through_links_up_and_down_and_to_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a/b/..", root.join("up")).unwrap();
        symlink(root.join("up/b"), root.join("b")).unwrap();
        let way = Way::to(&root.join("b/./none/m.yaml"));
        assert_eq!(way.end, root.join("a/b/none/m.yaml"));
        let within = way
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
            assert!(way.passes(&root.join(passed)), "{passed}");
        }
        for aside in ["c", "a/c", "a/b/c", "a/b/none/n.yaml"] {
            assert!(!way.passes(&root.join(aside)), "{aside}");
        }
    }

    #[test]
    fn a_way_in_circles_ends() {
        let dir = tempfile::tempdir().unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(
            Way::to(&dir.path().join("loop/m.yaml"))
                .end
                .ends_with("loop/m.yaml")
        );
    }
}
