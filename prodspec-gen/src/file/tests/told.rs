//! R43 and R44 where the system tells of changes: a reading looks only at what it was told about, and at everything when
//! that may not be all.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use plugin_sdk::{Problem, Problems, Update};

use super::{later, opened, read, write};
use crate::file::{
    cache::{Files, How},
    directory::Folder,
    inotify::Watches,
    settings::Settings,
    stable::{self, Look},
    walk::{Walk, Wanted},
};
use crate::format::Yaml;

/// A watched directory that was read once.
struct Watched {
    dir: tempfile::TempDir,
    settings: Settings,
}

impl Watched {
    fn with(files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        for name in files {
            write(&dir.path().join("root"), name, "a: 1");
        }
        let settings = Settings::new(dir.path().join("root"), true);
        let watched = Self { dir, settings };
        watched.documents();
        watched
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn write(&self, name: &str, text: &str) {
        write(&self.root(), name, text);
    }

    /// The names and contents of all documents.
    fn documents(&self) -> String {
        texts(read(&self.settings, later(), None))
    }

    /// The number of listings of all files since the last call.
    fn listings(&self) -> u64 {
        std::mem::take(&mut self.settings.cache.lock().unwrap().listed)
    }
}

fn texts(read: Result<Update, Problems>) -> String {
    match read {
        Ok(Update::Whole(reading)) => {
            let documents = reading.documents.iter();
            let texts = documents.map(|it| format!("{} {}", it.name(), super::a(it).unwrap()));
            texts.collect::<Vec<_>>().join(", ")
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn r43_reading_sees_every_change_that_was_complete_before_it() {
    let watched = Watched::with(&["a.yaml", "b.yaml"]);
    assert_eq!(
        watched.listings(),
        2,
        "before and after the watches are set up"
    );
    for n in 2..500 {
        watched.write("a.yaml", &format!("a: {n}"));
        let seen = watched.documents();
        assert_eq!(seen, format!("a.yaml#0 {n}, b.yaml#0 1"));
    }
    assert_eq!(watched.listings(), 0);
}

#[test]
fn r43_reading_without_a_change_looks_at_no_file() {
    let watched = Watched::with(&["a.yaml", "b.yaml"]);
    let known = match read(&watched.settings, later(), None).unwrap() {
        Update::Whole(reading) => reading.revision,
        other => panic!("{other:?}"),
    };
    watched.write(".hidden.yaml", "a: [");
    watched.write("README.md", "a: [");
    watched.listings();
    let same = read(&watched.settings, later(), Some(&known)).unwrap();
    assert_eq!(same, Update::Same);
    assert_eq!((watched.listings(), opened(&watched.settings)), (0, 2));
}

#[test]
fn r43_lost_events_lead_to_a_listing_of_all_files() {
    let watched = Watched::with(&["a.yaml", "b.yaml", "c.yaml"]);
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let files = ["a.yaml", "b.yaml"].map(|name| watched.root().join(name));
    let permissions = fs::metadata(&files[0]).unwrap().permissions();
    // Equal events in turn would be one, so the files take turns.
    for _ in 0..most.trim().parse::<u32>().unwrap() / 2 + 1 {
        for file in &files {
            fs::set_permissions(file, permissions.clone()).unwrap();
        }
    }
    watched.write("c.yaml", "a: 2");
    watched.listings();
    assert_eq!(watched.documents(), "a.yaml#0 1, b.yaml#0 1, c.yaml#0 2");
    assert_eq!(watched.listings(), 2);
    watched.write("c.yaml", "a: 3");
    assert_eq!(watched.documents(), "a.yaml#0 1, b.yaml#0 1, c.yaml#0 3");
    assert_eq!(watched.listings(), 0, "the watches are set up again");
}

#[test]
fn r43_files_in_a_new_directory_are_seen() {
    let watched = Watched::with(&["a.yaml"]);
    fs::create_dir_all(watched.root().join("d/e")).unwrap();
    watched.write("d/e/b.yaml", "a: 2");
    assert_eq!(watched.documents(), "a.yaml#0 1, d/e/b.yaml#0 2");
    watched.listings();
    watched.write("d/c.yaml", "a: 3");
    watched.write("d/e/b.yaml", "a: 4");
    let all = "a.yaml#0 1, d/c.yaml#0 3, d/e/b.yaml#0 4";
    assert_eq!((&*watched.documents(), watched.listings()), (all, 0));
    fs::rename(watched.root().join("d/e"), watched.root().join("d/f")).unwrap();
    assert_eq!(
        watched.documents(),
        "a.yaml#0 1, d/c.yaml#0 3, d/f/b.yaml#0 4"
    );
    fs::rename(watched.root().join("d/f"), watched.root().join(".g")).unwrap();
    assert_eq!(watched.documents(), "a.yaml#0 1, d/c.yaml#0 3");
}

#[test]
fn r43_replaced_root_is_seen() {
    let watched = Watched::with(&["a.yaml"]);
    for n in 2..4 {
        let next = watched.dir.path().join("next");
        fs::create_dir(&next).unwrap();
        write(&next, "b.yaml", format!("a: {n}"));
        fs::rename(watched.root(), watched.dir.path().join(format!("was-{n}"))).unwrap();
        fs::rename(next, watched.root()).unwrap();
        assert_eq!(watched.documents(), format!("b.yaml#0 {n}"));
        watched.write("b.yaml", &format!("a: 1{n}"));
        assert_eq!(watched.documents(), format!("b.yaml#0 1{n}"));
    }
}

#[test]
fn r43_links_that_move_and_their_targets_are_seen() {
    let watched = Watched::with(&["a.yaml"]);
    let outside = watched.dir.path().join("outside");
    for version in ["1", "2"] {
        fs::create_dir_all(outside.join(version)).unwrap();
        write(&outside.join(version), "b.yaml", format!("a: {version}"));
    }
    symlink("1", outside.join("now")).unwrap();
    symlink("../outside/now/b.yaml", watched.root().join("b.yaml")).unwrap();
    assert_eq!(watched.documents(), "a.yaml#0 1, b.yaml#0 1");
    symlink("2", outside.join("next")).unwrap();
    fs::rename(outside.join("next"), outside.join("now")).unwrap();
    assert_eq!(watched.documents(), "a.yaml#0 1, b.yaml#0 2");
    write(&outside.join("2"), "b.yaml", "a: 3");
    assert_eq!(watched.documents(), "a.yaml#0 1, b.yaml#0 3");
    fs::remove_file(watched.root().join("b.yaml")).unwrap();
    watched.write("b.yaml", "a: 4");
    assert_eq!(watched.documents(), "a.yaml#0 1, b.yaml#0 4");
}

#[test]
fn r43_all_files_are_listed_from_time_to_time() {
    let watched = Watched::with(&["a.yaml"]);
    let other = watched.dir.path().join("other");
    fs::hard_link(watched.root().join("a.yaml"), &other).unwrap();
    fs::write(other, "a: 22").unwrap();
    assert_eq!(
        watched.documents(),
        "a.yaml#0 1",
        "the system tells nothing"
    );
    let listed_after = |minutes: u64| {
        let time = later() + Duration::from_secs(60 * minutes);
        let Update::Whole(reading) = read(&watched.settings, time, None).unwrap() else {
            panic!("nothing is known");
        };
        super::a(&reading.documents[0]).unwrap()
    };
    assert_eq!(listed_after(4), "1");
    assert_eq!(listed_after(5), "22");
    watched.listings();
    listed_after(9);
    assert_eq!(watched.listings(), 0);
    listed_after(3);
    assert_eq!(watched.listings(), 2, "the clock went back");
}

#[test]
fn r43_failed_reading_keeps_what_it_was_told() {
    let watched = Watched::with(&["a.yaml", "b.yaml"]);
    fs::remove_file(watched.root().join("a.yaml")).unwrap();
    super::one_state::make_pipe(&watched.root().join("a.yaml"));
    watched.write("b.yaml", "a: 2");
    for _ in 0..2 {
        let said = watched.documents();
        assert!(said.contains("is not a regular file"), "{said}");
    }
    fs::remove_file(watched.root().join("a.yaml")).unwrap();
    assert_eq!(watched.documents(), "b.yaml#0 2");
}

#[test]
fn r43_limits_hold_for_all_files_together() {
    let watched = Watched::with(&["a.yaml", "b.yaml"]);
    let settings = watched.settings.clone();
    let settings = settings.set(|it| it.parsing.limits.bytes = 10);
    assert!(read(&settings, later(), None).is_ok());
    watched.write("a.yaml", "a: 1234");
    let said = read(&settings, later(), None).unwrap_err().to_string();
    assert!(
        said.contains("b.yaml: 4 bytes long, 3 are allowed"),
        "{said}"
    );
    watched.write("a.yaml", "a: 123");
    assert!(read(&settings, later(), None).is_ok());
}

#[test]
fn r43_file_system_that_may_change_elsewhere_is_not_relied_on() {
    let mut walk = Walk::new(Wanted::Extensions(&["yaml"]));
    walk.directory(Path::new("/proc/self/net")).unwrap();
    let refused = Watches::on(&walk.into_parts().1).unwrap_err().to_string();
    assert!(refused.contains("from other machines"), "{refused}");
}

/// A look at files during which others change: before the first is read, and after the last was read.
struct Meanwhile<'l, L> {
    look: &'l mut L,
    happens: &'l dyn Fn(u32),
    looks: u32,
}

impl<L: Look> Look for Meanwhile<'_, L> {
    type Listing = L::Listing;

    fn list(&mut self) -> Result<L::Listing, Problem> {
        let listing = self.look.list();
        (self.happens)(self.looks);
        self.looks += 1;
        listing
    }

    fn known(&self, listing: &L::Listing) -> Vec<bool> {
        self.look.known(listing)
    }

    fn is_compared(&self) -> bool {
        self.look.is_compared()
    }

    fn stayed(&mut self, listing: &L::Listing) -> bool {
        (self.happens)(self.looks);
        self.looks += 1;
        self.look.stayed(listing)
    }
}

#[test]
fn r44_other_files_that_change_during_a_reading_are_looked_at_too() {
    type Change = fn(&Watched);
    let changes: [(Change, &str); 5] = [
        (|it| it.write("b.yaml", "a: 22"), "a.yaml#0 33, b.yaml#0 22"),
        (|it| it.write("a.yaml", "a: 4"), "a.yaml#0 4, b.yaml#0 1"),
        (
            |it| it.write("c.yaml", "a: 5"),
            "a.yaml#0 33, b.yaml#0 1, c.yaml#0 5",
        ),
        (
            |it| fs::remove_file(it.root().join("b.yaml")).unwrap(),
            "a.yaml#0 33",
        ),
        (
            |it| {
                fs::create_dir(it.root().join("d")).unwrap();
                it.write("d/c.yaml", "a: 4");
            },
            "a.yaml#0 33, b.yaml#0 1, d/c.yaml#0 4",
        ),
    ];
    for (change, wanted) in changes {
        for when in [0, 1] {
            let watched = Watched::with(&["a.yaml", "b.yaml"]);
            watched.write("a.yaml", "a: 33");
            let read = read_while(&watched, &|looks| {
                if looks == when {
                    change(&watched);
                }
            });
            assert_eq!(texts(read), wanted, "{when}");
        }
    }
}

fn read_while(watched: &Watched, happens: &dyn Fn(u32)) -> Result<Update, Problems> {
    let how = How {
        cap: 1000,
        list_after: Some(Duration::from_secs(300)),
        now: later(),
    };
    let shape = Folder::<Yaml>::from(watched.settings.clone());
    let mut cache = watched.settings.cache.lock().unwrap();
    let mut files = Files {
        shape: &shape,
        how,
        cache: &mut cache,
    };
    let mut look = Meanwhile {
        look: &mut files,
        happens,
        looks: 0,
    };
    let (listing, read) = stable::read(&watched.root(), &mut look, 1000)?;
    cache.keep(&shape, listing, read, how.now);
    cache.answer(&shape, None)
}
