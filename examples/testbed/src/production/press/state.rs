//! The state of the press, under one lock: the keys whose effects it has made, the greatest fence of each key, and the
//! prints. All of it follows from the journal, which is on disk first.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::api::{Faults, Fence, JOURNAL, Line, Order, View, What, journal};
use crate::production::{clock, files::Lines};

/// Why the press refuses a call.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The fence refused the call.
    #[error(
        "the call {fence:?} of {key} is below {seen:?}, the greatest seen here: there is a newer owner or attempt"
    )]
    Fenced {
        /// Key of the call.
        key: String,
        /// Fence of the call.
        fence: Fence,
        /// The greatest fence seen.
        seen: Fence,
    },
    /// The press was told to fail.
    #[error("the press is jammed; try again")]
    Jammed,
    /// The directory cannot be written.
    #[error("the press cannot write to its directory: free disk space, then call again")]
    Io(#[from] io::Error),
}

/// A handle to the press. Clones share the state.
#[derive(Debug, Clone)]
pub(super) struct Press(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    dir: PathBuf,
    instance: String,
    journal: Lines,
    fences: BTreeMap<String, Fence>,
    done: BTreeSet<String>,
    prints: BTreeMap<String, String>,
    faults: Faults,
}

impl Press {
    /// Goes on from the journal in `dir`.
    pub(super) fn open(dir: PathBuf, instance: String) -> io::Result<Self> {
        fs::create_dir_all(dir.join("posters"))?;
        let mut state = State {
            journal: Lines::open(&dir.join(JOURNAL))?,
            instance,
            fences: BTreeMap::new(),
            done: BTreeSet::new(),
            prints: BTreeMap::new(),
            faults: Faults::default(),
            dir,
        };
        for line in journal(&state.dir) {
            state.take(&line)?;
        }
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    pub(super) fn view(&self) -> View {
        let state = self.lock();
        View {
            instance: state.instance.clone(),
            pid: std::process::id(),
            prints: state.prints.clone(),
        }
    }

    pub(super) fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Lets a call pass the fence. Returns how badly the press works on it.
    pub(super) fn called(&self, key: &str, fence: Fence) -> Result<Faults, Error> {
        let mut state = self.lock();
        state.pass(key, fence)?;
        state.write(key, fence, What::Called)?;
        let faults = state.faults;
        let left = &mut state.faults;
        match faults.fail {
            0 => left.drop = faults.drop.saturating_sub(1),
            _ => left.fail -= 1,
        }
        Ok(faults)
    }

    /// Makes the effect of a key, unless it was made before.
    pub(super) fn make(&self, key: &str, fence: Fence, order: Order) -> Result<(), Error> {
        let mut state = self.lock();
        // A later attempt may have begun while this one was slow.
        state.pass(key, fence)?;
        let known = state.done.contains(key);
        #[cfg(feature = "planted-faults")]
        let known = known && !crate::planted::press_forgets();
        if known {
            return Ok(());
        }
        let what = match order {
            Order::Print { text } => What::Printed { text },
            Order::Withdraw { of } => {
                let keys = state.prints.keys().filter(|key| key.starts_with(&of));
                What::Withdrawn {
                    keys: keys.cloned().collect(),
                }
            }
        };
        Ok(state.write(key, fence, what)?)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pass(&self, key: &str, fence: Fence) -> Result<(), Error> {
        match self.fences.get(key) {
            Some(seen) if fence < *seen => Err(Error::Fenced {
                key: key.into(),
                fence,
                seen: *seen,
            }),
            _ => Ok(()),
        }
    }

    /// Writes a line to the journal, and takes it in.
    fn write(&mut self, key: &str, fence: Fence, what: What) -> io::Result<()> {
        let line = Line {
            at_micros: clock::now_micros(),
            key: key.into(),
            fence,
            what,
        };
        self.journal.append(&line)?;
        self.take(&line)
    }

    fn take(&mut self, line: &Line) -> io::Result<()> {
        self.fences.insert(line.key.clone(), line.fence);
        match &line.what {
            What::Called => return Ok(()),
            What::Printed { text } => {
                fs::write(poster(&self.dir, &line.key), text)?;
                self.prints.insert(line.key.clone(), text.clone());
            }
            What::Withdrawn { keys } => {
                for key in keys {
                    fs::remove_file(poster(&self.dir, key))?;
                    self.prints.remove(key);
                }
            }
        }
        self.done.insert(line.key.clone());
        Ok(())
    }
}

/// Returns the path of the poster that was printed under `key`.
fn poster(dir: &Path, key: &str) -> PathBuf {
    dir.join("posters").join(key.replace('/', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(token: u64, attempt: u32) -> Fence {
        Fence { token, attempt }
    }

    fn print(press: &Press, key: &str, fence: Fence) -> Result<(), Error> {
        press.called(key, fence)?;
        let text = key.to_owned();
        press.make(key, fence, Order::Print { text })
    }

    #[test]
    fn key_is_printed_once_and_older_fences_are_refused_after_a_restart_too() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Press::open(dir.path().to_owned(), "x".into()).unwrap();
        let press = open();
        print(&press, "s/a/1", fence(1, 1)).unwrap();
        print(&press, "s/a/1", fence(2, 1)).unwrap();
        print(&press, "s/b/1", fence(2, 1)).unwrap();
        drop(press);
        let press = open();
        let late = print(&press, "s/a/1", fence(1, 9)).unwrap_err();
        assert!(matches!(late, Error::Fenced { .. }), "{late}");
        let keys: Vec<String> = press.view().prints.into_keys().collect();
        assert_eq!(keys, ["s/a/1", "s/b/1"]);
        let printed = |line: &Line| matches!(line.what, What::Printed { .. });
        let lines = journal(dir.path());
        assert_eq!(lines.iter().filter(|line| printed(line)).count(), 2);
    }

    #[test]
    fn slow_attempt_is_refused_when_a_later_one_has_begun() {
        let dir = tempfile::tempdir().unwrap();
        let press = Press::open(dir.path().to_owned(), "x".into()).unwrap();
        press.called("s/a/1", fence(1, 1)).unwrap();
        press.called("s/a/1", fence(1, 2)).unwrap();
        let text = String::new();
        let late = press.make("s/a/1", fence(1, 1), Order::Print { text });
        assert!(matches!(late, Err(Error::Fenced { .. })));
    }

    #[test]
    fn withdrawn_posters_are_gone_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let press = Press::open(dir.path().to_owned(), "x".into()).unwrap();
        print(&press, "s/a/1", fence(1, 1)).unwrap();
        print(&press, "s/ab/1", fence(1, 1)).unwrap();
        let of = "s/a/".into();
        let order = Order::Withdraw { of };
        press.make("s/undo/1", fence(1, 1), order).unwrap();
        drop(press);
        let press = Press::open(dir.path().to_owned(), "x".into()).unwrap();
        let keys: Vec<String> = press.view().prints.into_keys().collect();
        assert_eq!(keys, ["s/ab/1"]);
        assert!(!poster(dir.path(), "s/a/1").exists());
        assert!(poster(dir.path(), "s/ab/1").exists());
    }
}
