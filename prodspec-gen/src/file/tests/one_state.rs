//! R44: a reading has one state of the files, or is refused, whatever happens to them meanwhile.

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use plugin_sdk::{Problems, SourceOfTruth};

use super::{a, outcome, write};
use crate::file::{
    YamlDirectory, YamlFile,
    stable::{self, Found},
};

/// The texts that are read while `happens` changes the files. It runs after the first listing of each attempt (0, 2,
/// ...) and before the second listing (1, 3, ...).
#[cfg(unix)]
fn read_while(link: &Path, happens: impl Fn(u32)) -> Result<Vec<String>, Problems> {
    let looks = Cell::new(0);
    let list = || {
        let nth = looks.replace(looks.get() + 1);
        if nth % 2 == 1 {
            happens(nth);
        }
        let reached = fs::canonicalize(link).unwrap();
        let found = ["a", "b"].map(|name| Found::direct(link.join(name), reached.join(name)));
        if nth.is_multiple_of(2) {
            happens(nth);
        }
        Ok(found.into())
    };
    let (_, files) = stable::read_all(link, list, |all| vec![false; all.len()], 100)?;
    let text = |(_, bytes): (PathBuf, Vec<u8>)| String::from_utf8(bytes).unwrap();
    Ok(files.into_iter().map(text).collect())
}

/// Two versions of a directory with the files `a` and `b`, and a link to the first.
#[cfg(unix)]
fn versions(dir: &Path) -> PathBuf {
    for version in ["1", "2"] {
        fs::create_dir(dir.join(version)).unwrap();
        for name in ["a", "b"] {
            write(&dir.join(version), name, version);
        }
    }
    switch(dir, "1");
    dir.join("link")
}

#[cfg(unix)]
fn switch(dir: &Path, version: &str) {
    std::os::unix::fs::symlink(version, dir.join("new")).unwrap();
    fs::rename(dir.join("new"), dir.join("link")).unwrap();
}

#[cfg(unix)]
#[test]
fn r44_reading_has_one_state_despite_concurrent_changes() {
    let read = |happens: &dyn Fn(&Path, u32)| {
        let dir = tempfile::tempdir().unwrap();
        let link = versions(dir.path());
        let read = read_while(&link, |nth| happens(dir.path(), nth));
        read.map_err(|problems| problems.to_string())
    };
    let first = |change: fn(&Path)| {
        move |dir: &Path, nth: u32| {
            if nth == 0 {
                change(dir)
            }
        }
    };
    let both = |text: &str| Ok(vec![text.to_owned(), text.to_owned()]);
    assert_eq!(read(&|_, _| {}), both("1"));
    assert_eq!(
        read(&first(|dir| switch(dir, "2"))),
        both("2"),
        "the link is switched"
    );
    let rewritten = first(|dir| {
        for name in ["a", "b"] {
            fs::write(dir.join("1").join(name), "new").unwrap();
        }
    });
    assert_eq!(read(&rewritten), both("new"), "files are written again");
    let replaced = first(|dir| {
        fs::rename(dir.join("1"), dir.join("0")).unwrap();
        fs::rename(dir.join("2"), dir.join("1")).unwrap();
    });
    assert_eq!(
        read(&replaced),
        both("2"),
        "the directory is swapped for another"
    );
    let there_and_back = |dir: &Path, nth: u32| {
        let moves = match nth {
            0 => [("1/a", "a"), ("2/a", "1/a")],
            1 => [("1/a", "2/a"), ("a", "1/a")],
            _ => return,
        };
        for (from, to) in moves {
            fs::rename(dir.join(from), dir.join(to)).unwrap();
        }
    };
    assert_eq!(
        read(&there_and_back),
        both("1"),
        "a file is swapped for a moment"
    );
    let restless = |dir: &Path, nth: u32| switch(dir, if nth % 4 < 2 { "2" } else { "1" });
    let said = read(&restless).unwrap_err();
    assert!(
        said.contains("link: changes while it is being read"),
        "{said}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn r44_directory_switched_by_a_link_is_read_in_one_state() {
    let dir = tempfile::tempdir().unwrap();
    for version in ["1", "2"] {
        fs::create_dir(dir.path().join(version)).unwrap();
        for file in 0..8 {
            let text = format!("a: {version}");
            write(&dir.path().join(version), &format!("{file}.yaml"), text);
        }
    }
    switch(dir.path(), "1");
    // A link to a directory, as releases are switched; links to files, as Kubernetes mounts a ConfigMap.
    let mounted = dir.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    for file in 0..8 {
        let to = format!("../link/{file}.yaml");
        std::os::unix::fs::symlink(to, mounted.join(format!("{file}.yaml"))).unwrap();
    }
    let (stop, stopped) = mpsc::channel::<()>();
    let root = dir.path().to_owned();
    let switching = std::thread::spawn(move || {
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            switch(&root, "2");
            switch(&root, "1");
        }
    });
    for source in [dir.path().join("link"), mounted].map(YamlDirectory::new) {
        for _ in 0..50 {
            let Ok(reading) = source.read().await else {
                continue;
            };
            let read: Result<std::collections::BTreeSet<_>, _> =
                reading.documents.iter().map(a).collect();
            assert_eq!(read.unwrap().len(), 1);
        }
    }
    drop(stop);
    switching.join().unwrap();
}

#[cfg(target_os = "linux")]
pub(super) fn make_pipe(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn r44_path_that_is_not_a_regular_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("m.yaml");
    make_pipe(&pipe);
    fs::create_dir(dir.path().join("d")).unwrap();
    std::os::unix::fs::symlink("../m.yaml", dir.path().join("d/n.yaml")).unwrap();
    let sources: [Box<dyn SourceOfTruth>; 4] = [
        Box::new(YamlFile::new(&pipe)),
        Box::new(YamlFile::new(dir.path().join("d"))),
        Box::new(YamlDirectory::new(dir.path())),
        Box::new(YamlDirectory::new(dir.path().join("d"))),
    ];
    for source in sources {
        let read = tokio::time::timeout(Duration::from_secs(10), source.read()).await;
        let said = read.unwrap().unwrap_err().to_string();
        assert!(said.contains("is not a regular file"), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn r44_pipe_that_replaces_a_file_does_not_block_the_reading() {
    let dir = tempfile::tempdir().unwrap();
    let link = versions(dir.path());
    let (done, answer) = mpsc::channel();
    let root = dir.path().to_owned();
    std::thread::spawn(move || {
        let read = read_while(&link, |nth| {
            if nth == 0 {
                fs::remove_file(root.join("1/a")).unwrap();
                make_pipe(&root.join("1/a"));
            }
        });
        done.send(read.unwrap_err().to_string())
    });
    let said = answer.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(said.contains("link/a: is not a regular file"), "{said}");
}

#[cfg(unix)]
#[tokio::test]
async fn r44_links_to_directories_are_refused_with_their_paths() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["conf/eu", "aside"] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    write(dir.path(), "conf/a.yaml", "a: 1");
    write(dir.path(), "aside/b.yaml", "b: 1");
    let link = |to: &str, at: &str| {
        std::os::unix::fs::symlink(to, dir.path().join("conf").join(at)).unwrap();
    };
    link("../aside", ".hidden");
    link("../aside/b.yaml", "notes");
    link("../aside/nothing", "dangling");
    link("loop", "loop");
    let conf = dir.path().join("conf");
    for source in [YamlDirectory::new(&conf), YamlDirectory::watch(&conf)] {
        assert_eq!(outcome(&source).await, "1 documents");
        link("../../aside", "eu/us");
        link("../aside", "more.yaml");
        let refused = outcome(&source).await;
        for path in ["conf/eu/us", "conf/more.yaml"] {
            let problem = format!("{path}: is a link to a directory, which is not followed; move");
            assert!(refused.contains(&problem), "{refused}");
        }
        assert_eq!(refused.lines().count(), 2, "{refused}");
        // A target that becomes a directory is seen, too.
        for path in ["eu/us", "more.yaml"] {
            fs::remove_file(conf.join(path)).unwrap();
        }
        assert_eq!(outcome(&source).await, "1 documents");
        fs::create_dir(dir.path().join("aside/nothing")).unwrap();
        let refused = outcome(&source).await;
        assert!(
            refused.contains("conf/dangling: is a link to a dir"),
            "{refused}"
        );
        fs::remove_dir(dir.path().join("aside/nothing")).unwrap();
    }
}
