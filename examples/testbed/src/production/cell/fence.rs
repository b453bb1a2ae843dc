//! The fence: refuses late calls and old owners. It keeps the greatest `(token, n)` seen per resource. The tokens are
//! stored on disk; otherwise an old owner could change a restarted cell before the first call of the new owner.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::error::Error;
use crate::production::{api::Caller, files::replace_file};

/// The greatest `(token, n)` seen, per resource.
#[derive(Debug)]
pub(super) struct Fences {
    path: PathBuf,
    seen: BTreeMap<String, (u64, u64)>,
}

impl Fences {
    /// Reads the tokens that earlier processes of this cell have seen.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join("fences.json");
        let tokens: BTreeMap<String, u64> = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        let seen = tokens
            .into_iter()
            .map(|(resource, token)| (resource, (token, 0)))
            .collect();
        Ok(Self { path, seen })
    }

    /// Records a call, or refuses it if its `(token, n)` is below the greatest one seen. A call without a token is made
    /// by a person and always passes.
    pub(super) fn pass(&mut self, resource: &str, caller: &Caller) -> Result<(), Error> {
        let Some(token) = caller.token else {
            return Ok(());
        };
        let call = (token, caller.n.unwrap_or(0));
        let seen = self.seen.get(resource).copied().unwrap_or_default();
        if call < seen {
            let message = format!(
                "{resource}: the call {call:?} (token, n) is below {seen:?}, the greatest seen here: there is a newer \
                 owner or a later call, so stop and check which process owns the partition"
            );
            let seen = seen.0;
            return Err(Error::Fenced { message, seen });
        }
        self.seen.insert(resource.into(), call);
        if call.0 > seen.0 {
            self.save()?;
        }
        Ok(())
    }

    fn save(&self) -> io::Result<()> {
        let tokens: BTreeMap<&str, u64> = self
            .seen
            .iter()
            .map(|(resource, (token, _))| (resource.as_str(), *token))
            .collect();
        replace_file(&self.path, &serde_json::to_vec(&tokens)?)
    }
}
