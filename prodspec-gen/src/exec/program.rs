//! The program of a source: where it is, how it is named in problems, and what to do when it is missing.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs, iter,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf, absolute},
};

use plugin_sdk::text::shown;

/// Maximum length of a command in problems, in characters.
const SHOWN: usize = 120;

/// A program, as it was found when the source was built.
#[derive(Debug, Clone)]
pub(super) struct Program {
    named: OsString,
    found: Option<PathBuf>,
    /// What a recipe says about installing the program.
    install: Option<&'static str>,
}

impl Program {
    /// Finds the program `named` in the directories of `path`, which has the form of the variable `PATH`. A name with a
    /// `/` is a path.
    pub(super) fn find(named: OsString, path: Option<&OsStr>) -> Self {
        let found = if named.as_encoded_bytes().contains(&b'/') {
            absolute(&named).ok()
        } else {
            let directories = path.map(env::split_paths).into_iter().flatten();
            let absolute = directories.filter(|directory| directory.is_absolute());
            let mut there = absolute.map(|directory| directory.join(&named));
            there.find(|path| is_executable(path))
        };
        Self {
            named,
            found,
            install: None,
        }
    }

    /// The same program, found in the directories of another `PATH`.
    pub(super) fn find_again(self, path: &OsStr) -> Self {
        Self {
            install: self.install,
            ..Self::find(self.named, Some(path))
        }
    }

    /// Sets what the problem of a missing program says: the recipe that needs it, and how it is installed.
    pub(super) fn install(&mut self, how: &'static str) {
        self.install = Some(how);
    }

    /// The path of the program.
    ///
    /// # Errors
    /// A message when it was not found.
    pub(super) fn path(&self) -> Result<&Path, String> {
        self.found.as_deref().ok_or_else(|| {
            let named = self.named.to_string_lossy();
            let how = self.install.unwrap_or("install it, or name it by its path");
            format!("`{named}` was not found on the PATH of this process; {how}, then restart the process")
        })
    }

    /// The command for operators, such as `kubectl kustomize overlays/prod`. Long ones are cut off.
    pub(super) fn command(&self, args: &[OsString]) -> String {
        let words = iter::once(&self.named).chain(args);
        let command: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
        let command = command.join(" ");
        match command.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &command[..end]),
            None => command,
        }
    }
}

/// A word of a command line, in quotes if a shell would need them, without control characters.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", shown(word))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r46_program_is_found_in_the_first_directory_that_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let [plain, first, second] = ["plain", "first", "second"].map(|name| dir.path().join(name));
        for (place, mode) in [(&plain, 0o644), (&first, 0o755), (&second, 0o755)] {
            fs::create_dir(place).unwrap();
            fs::write(place.join("tool"), "").unwrap();
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(place.join("tool"), mode).unwrap();
        }
        let path = env::join_paths([Path::new("relative"), &plain, &first, &second]).unwrap();
        let found = Program::find("tool".into(), Some(&path));
        assert_eq!(found.path(), Ok(&*first.join("tool")));
        let missing = Program::find("other".into(), Some(&path))
            .path()
            .unwrap_err();
        assert!(
            missing.starts_with("`other` was not found on the PATH"),
            "{missing}"
        );
        let by_path = Program::find("./sub/tool".into(), None);
        assert!(by_path.path().unwrap().is_absolute());
    }

    #[test]
    fn command_is_quoted_and_cut_off() {
        let program = Program::find("sh".into(), None);
        let args = ["-c".into(), "echo 'a'\n".into(), OsString::new()];
        assert_eq!(program.command(&args), r"sh -c 'echo 'a'\u{a}' ''");
        let long = program.command(&["ä".repeat(200).into()]);
        assert_eq!(long, format!("sh {}...", "ä".repeat(117)));
    }
}
