//! One file that is not a manifest itself, such as an archive: read in one state, and only when it has changed.

use std::{path::PathBuf, time::SystemTime};

use plugin_sdk::{Problem, Problems};

use super::{
    links::Links,
    stable::{self, Found},
};

/// Reads a regular file when it has changed, in one state. Links in its path are followed.
///
/// What counts is the inode, the length and the times of the file. A file that changed less than three seconds ago is
/// read again.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use prodspec_gen::file::FileReader;
/// # #[allow(clippy::disallowed_methods)]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("configs.tar");
/// std::fs::write(&path, "bytes")?;
///
/// let mut reader = FileReader::new(&path);
/// let later = SystemTime::now() + Duration::from_secs(3600);
/// assert_eq!(reader.read(1024, later)?, Some(b"bytes".to_vec()));
/// assert_eq!(reader.read(1024, later)?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FileReader {
    path: PathBuf,
    /// The state of the file when it was read last. `None`: it does not tell the content.
    read: Option<Found>,
}

impl FileReader {
    /// Reads the file at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            read: None,
        }
    }

    /// Reads the file as of the time `now`. Returns `None` if it has not changed since it was read last. `cap` is its
    /// maximum length in bytes.
    ///
    /// # Errors
    /// When the file cannot be read, is too long, is no regular file, or keeps changing.
    pub fn read(&mut self, cap: u64, now: SystemTime) -> Result<Option<Vec<u8>>, Problems> {
        let find = || -> Result<Vec<Found>, Problem> {
            let found = Found::linked(self.path.clone(), &self.path, &mut Links::default());
            Ok(vec![found])
        };
        let known = |found: &[Found]| {
            found
                .iter()
                .map(|it| self.read.as_ref() == Some(it))
                .collect()
        };
        let (found, read) = stable::read_all(&self.path, find, known, cap)?;
        let Some((_, bytes)) = read.into_iter().next() else {
            return Ok(None);
        };
        self.read = found.into_iter().find(|found| found.is_settled(now));
        Ok(Some(bytes))
    }

    /// Forgets what was read, so that the next reading reads the file in any case.
    pub fn forget(&mut self) {
        self.read = None;
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    #[test]
    fn r43_file_is_read_again_only_when_its_state_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let mut reader = FileReader::new(&path);
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 33);
        assert!(reader.read(9, later).is_err(), "there is none");
        fs::write(&path, "one").unwrap();
        let mut read = |now| reader.read(9, now).unwrap().map(|bytes| bytes.len());
        assert_eq!(
            read(SystemTime::UNIX_EPOCH),
            Some(3),
            "the time does not tell yet"
        );
        assert_eq!((read(later), read(later)), (Some(3), None));
        fs::write(&path, "three").unwrap();
        assert_eq!((read(later), read(later)), (Some(5), None));
        reader.forget();
        assert!(reader.read(9, later).unwrap().is_some());
        fs::write(&path, "much too long").unwrap();
        assert!(reader.read(9, later).is_err());
    }
}
