//! Which files of a tree a source reads: those of its format below its path, hidden ones excepted.

use plugin_sdk::Problem;

use crate::{file::scope::MAX_LEVELS, format::Format};

/// The files of a tree that a source reads. A tree can use it to skip directories that have none.
///
/// Paths are relative to the root of the tree, with slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// A directory or a file. Empty: the root.
    path: String,
    extensions: &'static [&'static str],
    bytes: u64,
}

impl Selection {
    pub(super) fn of<F: Format>(path: &str, bytes: u64) -> Self {
        Self {
            path: path.to_owned(),
            extensions: F::EXTENSIONS,
            bytes,
        }
    }

    /// Maximum length of all files that are read together, in bytes. A tree need not keep more of them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether to look into a directory, because it may have files that are read.
    ///
    /// # Errors
    /// When the directory is nested too deep.
    pub fn enters(&self, directory: &str) -> Result<bool, Problem> {
        match self.beneath(directory) {
            Some(beneath) if is_hidden(beneath) => Ok(false),
            Some(beneath) if levels(beneath) > MAX_LEVELS => Err(too_deep(directory)),
            Some(_) => Ok(true),
            None => Ok(self.leads_to(directory)),
        }
    }

    /// Whether the regular file at `path` is read.
    ///
    /// # Errors
    /// When the file is nested too deep.
    pub fn takes(&self, path: &str) -> Result<bool, Problem> {
        let Some(beneath) = self.beneath(path) else {
            return Ok(false);
        };
        let known = |extension: &std::ffi::OsStr| self.extensions.iter().any(|it| extension == *it);
        let extension = std::path::Path::new(beneath).extension();
        if beneath.is_empty() {
            return Ok(true); // the source is this file, whatever its name
        }
        if is_hidden(beneath) || !extension.is_some_and(known) {
            return Ok(false);
        }
        match levels(beneath) > MAX_LEVELS + 1 {
            true => Err(too_deep(path)),
            false => Ok(true),
        }
    }

    /// Whether the files to read could be behind a link, or something else that is no file, at `path`. Such an entry is
    /// refused.
    pub fn needs(&self, path: &str) -> bool {
        match self.beneath(path) {
            Some(beneath) => !is_hidden(beneath),
            None => self.leads_to(path),
        }
    }

    /// The part of `path` beneath the path of the selection; empty if they are the same. `None`: it is elsewhere.
    fn beneath<'p>(&self, path: &'p str) -> Option<&'p str> {
        if self.path.is_empty() {
            return Some(path);
        }
        match path.strip_prefix(&*self.path)? {
            "" => Some(""),
            rest => rest.strip_prefix('/'),
        }
    }

    /// Whether the path of the selection is beneath the `directory`.
    fn leads_to(&self, directory: &str) -> bool {
        let rest = self.path.strip_prefix(directory);
        rest.is_some_and(|rest| rest.starts_with('/'))
    }
}

fn is_hidden(beneath: &str) -> bool {
    beneath.split('/').any(|name| name.starts_with('.'))
}

fn levels(beneath: &str) -> usize {
    match beneath {
        "" => 0,
        some => some.split('/').count(),
    }
}

fn too_deep(path: &str) -> Problem {
    Problem::new("more than 16 levels of directories; flatten them").at(path, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Yaml;

    #[test]
    fn selection_takes_files_of_the_format_beneath_its_path() {
        let selection = Selection::of::<Yaml>("a/b", 9);
        let takes = |path: &str| selection.takes(path).unwrap();
        assert!(takes("a/b/c.yaml") && takes("a/b/d/c.yml") && takes("a/b"));
        for other in [
            "a/c.yaml",
            "a/bc.yaml",
            "a/b/c.json",
            "a/b/.c.yaml",
            "a/b/.d/c.yaml",
        ] {
            assert!(!takes(other), "{other}");
        }
        let enters = |path: &str| selection.enters(path).unwrap();
        assert!(enters("a") && enters("a/b") && enters("a/b/d"));
        assert!(!enters("ab") && !enters("a/c") && !enters("a/b/.d"));
        assert!(selection.needs("a") && selection.needs("a/b/link"));
        assert!(!selection.needs("link") && !selection.needs("a/b/.link"));
    }

    #[test]
    fn selection_of_the_root_takes_hidden_files_at_no_level() {
        let selection = Selection::of::<Yaml>("", 9);
        assert!(selection.takes("c.yaml").unwrap() && selection.enters("a").unwrap());
        assert!(!selection.takes(".github/c.yaml").unwrap());
    }

    #[test]
    fn selection_refuses_what_is_nested_too_deep() {
        let selection = Selection::of::<Yaml>("top", 9);
        let deep = |levels: usize| format!("top{}", "/d".repeat(levels));
        assert!(selection.enters(&deep(16)).unwrap());
        assert!(selection.takes(&format!("{}/c.yaml", deep(16))).unwrap());
        assert!(selection.enters(&deep(17)).is_err());
        assert!(selection.takes(&format!("{}/c.yaml", deep(17))).is_err());
    }
}
