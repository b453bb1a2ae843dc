//! The programs of PostgreSQL, and the user that they run as.

use std::{
    ffi::OsStr,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

/// Where Debian installs the programs: a directory per version.
const INSTALLED: &str = "/usr/lib/postgresql";
/// What a test says that finds no programs.
const MISSING: &str = "PostgreSQL is not installed; run `apt-get install postgresql`, which is Debian's package of it";

/// Whether the programs of any version are installed.
pub fn is_installed() -> bool {
    newest(Path::new(INSTALLED)).is_some()
}

/// The programs of one version of PostgreSQL.
#[derive(Debug)]
pub(crate) struct Programs {
    bin: PathBuf,
    /// The user and the group to run as. `None`: those of the test.
    user: Option<(u32, u32)>,
}

impl Programs {
    /// The programs of the newest version that is installed. `home` is a new directory of the test's own.
    ///
    /// # Panics
    /// When none is installed, or the test runs as root and the user `postgres` does not exist.
    pub(crate) fn find(home: &Path) -> Self {
        let owner = home.metadata().expect("the directory can be read").uid();
        Self {
            bin: newest(Path::new(INSTALLED)).expect(MISSING),
            user: (owner == 0).then(|| (id("-u"), id("-g"))),
        }
    }

    /// The user and the group that own what the server writes. `None`: those of the test.
    pub(crate) fn owner(&self) -> Option<(u32, u32)> {
        self.user
    }

    /// Runs a program to its end and returns what it printed.
    ///
    /// # Errors
    /// What it printed on standard error, if it failed.
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<String, String> {
        let mut command = Command::new(self.bin.join(program));
        command.args(args).current_dir("/");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        let output = command.output();
        let output = output.map_err(|error| format!("failed to run {program}: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!("{program} failed: {}", text(&output.stderr))),
        }
    }
}

/// The programs of the newest version in a directory of versions.
fn newest(installed: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(installed).ok()?;
    let numbered = versions.filter_map(|entry| {
        let version = entry.ok()?.file_name().to_str()?.parse::<u32>().ok()?;
        let bin = installed.join(version.to_string()).join("bin");
        bin.join("initdb").exists().then_some((version, bin))
    });
    numbered.max().map(|(_, bin)| bin)
}

/// The id of the user `postgres`, or of its group, as the program `id` prints it.
fn id(which: &str) -> u32 {
    let output = Command::new("id").args([which, "postgres"]).output();
    let output = output.expect("the program `id` runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().expect(MISSING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_version_with_programs_is_used() {
        let root = tempfile::tempdir().unwrap();
        for (version, program) in [("9", "initdb"), ("15", "initdb"), ("17", "psql")] {
            let bin = root.path().join(version).join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            std::fs::write(bin.join(program), "").unwrap();
        }
        assert_eq!(newest(root.path()), Some(root.path().join("15/bin")));
        assert_eq!(newest(&root.path().join("missing")), None);
    }
}
