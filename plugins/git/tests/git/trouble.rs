//! What goes wrong with servers, refs and clones.

use std::fs;

use crate::origin::{Origin, names, refusal};
use futures::FutureExt;
use plugin_sdk::{Problems, Reading, SourceOfTruth, Update};
use plugins_git::Git;

#[tokio::test]
async fn ref_may_move_anywhere_by_force() {
    let origin = Origin::of(&[("a.yaml", "a: 1")]);
    let source = Git::new(&origin.url()).branch("main").yaml();
    let first = source.read().await.unwrap();
    origin.write("b.yaml", "a: 2");
    let second = origin.commit();
    assert_eq!(*source.read().await.unwrap().revision.0, *second);
    origin.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let back = source.read().await.unwrap();
    assert_eq!(back, first);
    origin.git(&["checkout", "--quiet", "--orphan", "other"]);
    origin.write("a.yaml", "a: 3");
    origin.commit();
    origin.git(&["branch", "--force", "main", "other"]);
    let other = source.read_since(&first.revision).await.unwrap();
    let Update::Delta(delta) = other else {
        panic!("the first revision is known");
    };
    assert_eq!(
        (&*delta.revision.0, names(&delta.put)),
        (&*origin.head(), vec!["a.yaml#0".to_owned()])
    );
}

#[tokio::test]
async fn missing_ref_is_a_problem_until_it_is_there() {
    let origin = Origin::of(&[("a.yaml", "a: 1")]);
    let source = Git::new(&origin.url())
        .branch("release")
        .yaml()
        .named("clusters");
    let said = refusal(&source).await;
    assert!(
        said.contains(
            "has no branch `release`; push it, or name one that is there (says source clusters)"
        ),
        "{said}"
    );
    origin.git(&["branch", "release"]);
    let there = source.read().await.unwrap();
    origin.git(&["branch", "-D", "release"]);
    assert!(refusal(&source).await.contains("has no branch `release`"));
    origin.git(&["branch", "release"]);
    assert_eq!(
        source.read_since(&there.revision).await.unwrap(),
        Update::Same
    );
    let empty = Origin::new();
    let said = refusal(&Git::new(&empty.url()).yaml()).await;
    assert!(said.contains("has no default branch"), "{said}");
    for wrong in [
        "main",
        "refs/heads/*",
        "refs/heads/a:b",
        "refs/heads/",
        "^refs/heads/a",
    ] {
        let said = refusal(&Git::new(&origin.url()).reference(wrong).yaml()).await;
        assert!(said.contains("is no full name of a ref"), "{wrong}: {said}");
    }
}

#[tokio::test]
async fn missing_repository_is_a_problem_with_its_url() {
    let dir = tempfile::tempdir().unwrap();
    let url = dir.path().join("nothing.git").to_str().unwrap().to_owned();
    let said = refusal(&Git::new(&url).yaml()).await;
    assert!(
        said.starts_with(&url) && said.contains("cannot be fetched"),
        "{said}"
    );
    assert!(
        said.contains("does not appear to be a git repository"),
        "{said}"
    );
    let said = refusal(&Git::new("https://user:secret@example.invalid/x.git").yaml()).await;
    assert!(
        said.contains("feature") && !said.contains("secret"),
        "{said}"
    );
}

#[tokio::test]
async fn clone_that_was_deleted_or_damaged_is_made_again() {
    let origin = Origin::of(&[("a.yaml", "a: 1"), ("b.yaml", "a: 1")]);
    let cache = tempfile::tempdir().unwrap();
    let git = || {
        Git::new(&origin.url())
            .branch("main")
            .clone_in(cache.path())
    };
    let source = git().yaml();
    let first = source.read().await.unwrap();
    let files = || {
        fs::read_dir(cache.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let clone = files()
        .find(|path| path.extension().unwrap() == "git")
        .unwrap();
    fs::remove_dir_all(&clone).unwrap();
    assert_eq!(
        source.read_since(&first.revision).await.unwrap(),
        Update::Same
    );
    let change = |text: &str| {
        origin.write("a.yaml", text);
        origin.commit()
    };
    fs::remove_dir_all(&clone).unwrap();
    let second = change("a: 2");
    assert_eq!(*source.read().await.unwrap().revision.0, *second);
    // Every object is damaged.
    let damage = || {
        for file in fs::read_dir(clone.join("objects/pack")).unwrap() {
            let path = file.unwrap().path();
            if path.extension().unwrap() == "pack" {
                let len = fs::metadata(&path).unwrap().len() as usize;
                fs::remove_file(&path).unwrap();
                fs::write(&path, vec![0; len]).unwrap();
            }
        }
    };
    damage();
    let third = change("a: 3");
    assert_eq!(*source.read().await.unwrap().revision.0, *third);
    damage();
    drop(source);
    let source = git().yaml();
    assert_eq!(*source.read().await.unwrap().revision.0, *third);
    fs::write(clone.join("HEAD"), "rubbish").unwrap();
    fs::write(clone.join("config"), "[rubbish").unwrap();
    let fourth = change("a: 4");
    assert_eq!(*source.read().await.unwrap().revision.0, *fourth);
}

#[tokio::test]
async fn clone_is_kept_and_used_by_one_source_at_a_time() {
    let origin = Origin::of(&[("a.yaml", "a: 1")]);
    origin.git(&["branch", "other"]);
    let cache = tempfile::tempdir().unwrap();
    let git = |branch| {
        Git::new(&origin.url())
            .branch(branch)
            .clone_in(cache.path())
    };
    let (one, other, same) = (git("main").yaml(), git("other").yaml(), git("main").yaml());
    assert!(one.read().await.is_ok() && other.read().await.is_ok());
    let said = refusal(&same).await;
    assert!(said.contains("another source reads the same ref"), "{said}");
    drop(one);
    assert!(same.read().await.is_ok());
}

#[tokio::test]
async fn clone_does_not_grow_without_end() {
    let origin = Origin::of(&[("a.yaml", "a: 1")]);
    let cache = tempfile::tempdir().unwrap();
    let source = Git::new(&origin.url()).clone_in(cache.path()).yaml();
    let packs = || {
        let clones = fs::read_dir(cache.path()).unwrap();
        let packs = clones
            .filter_map(|clone| fs::read_dir(clone.unwrap().path().join("objects/pack")).ok());
        packs.flatten().count()
    };
    let mut most = 0;
    for n in 0..60 {
        origin.write("a.yaml", format!("a: {n}"));
        let commit = origin.commit();
        assert_eq!(*source.read().await.unwrap().revision.0, *commit);
        most = most.max(packs());
    }
    assert!(
        most >= 100 && packs() < 40,
        "a pack and its index each: {most}, then {}",
        packs()
    );
}

/// Reads a source after a reading that was given up. Its thread may need a moment to end.
async fn ended(source: &impl SourceOfTruth) -> Result<Reading, Problems> {
    let reading = async {
        loop {
            match source.read().await {
                Err(said) if said.to_string().contains("has not ended") => {
                    tokio::task::yield_now().await;
                }
                read => break read,
            }
        }
    };
    let most = std::time::Duration::from_secs(60);
    let read = tokio::time::timeout(most, reading).await;
    read.expect("the reading that was given up has not ended")
}

#[tokio::test]
async fn r44_connection_that_says_nothing_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let source = Git::new(&format!("git://{address}/a.git")).yaml();
    let mut reading = source.read();
    assert!(reading.as_mut().now_or_never().is_none());
    let accepted = tokio::task::spawn_blocking(move || (listener.accept(), listener));
    let (connection, listener) = accepted.await.unwrap();
    assert!(
        reading.as_mut().now_or_never().is_none(),
        "the executor is free"
    );
    drop(reading);
    drop((connection, listener));
    let said = ended(&source).await.unwrap_err().to_string();
    assert!(said.contains("cannot be fetched"), "{said}");
}

/// Serves one connection to `repository` as a server of Git's own protocol does. Returns the request.
#[cfg(unix)]
fn serve(listener: &std::net::TcpListener, repository: &std::path::Path) -> String {
    use std::{io::Read, os::fd::OwnedFd, process};

    let (mut connection, _) = listener.accept().unwrap();
    let mut len = [0; 4];
    connection.read_exact(&mut len).unwrap();
    let len = usize::from_str_radix(str::from_utf8(&len).unwrap(), 16).unwrap();
    let mut request = vec![0; len - 4];
    connection.read_exact(&mut request).unwrap();
    let pipe = || process::Stdio::from(OwnedFd::from(connection.try_clone().unwrap()));
    let mut git = process::Command::new("git");
    git.arg("upload-pack")
        .arg(repository)
        .env("GIT_PROTOCOL", "version=2");
    git.stdin(pipe())
        .stdout(pipe())
        .stderr(process::Stdio::null());
    git.status().unwrap();
    String::from_utf8(request).unwrap()
}

#[cfg(unix)]
#[tokio::test]
async fn repository_is_reached_through_the_protocol_of_git() {
    let origin = Origin::of(&[("a.yaml", "a: 1")]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("git://{}/a.git", listener.local_addr().unwrap());
    let source = Git::new(&url).branch("main").yaml();
    let path = origin.path().to_owned();
    let served = tokio::task::spawn_blocking(move || serve(&listener, &path));
    assert_eq!(*source.read().await.unwrap().revision.0, *origin.head());
    let request = served.await.unwrap();
    assert!(
        request.starts_with("git-upload-pack /a.git\0host=127.0.0.1"),
        "{request:?}"
    );
}

#[cfg(unix)]
mod ssh {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that takes the place of SSH. It notes its arguments and runs `script`.
    fn program(dir: &std::path::Path, script: &str) -> String {
        let path = dir.join("ssh");
        let text = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}/arguments'\n{script}\n",
            dir.display()
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs the last argument, as the other host would.
    const RUN: &str = "for last; do :; done; exec sh -c \"$last\"";

    #[tokio::test]
    async fn repository_is_reached_through_ssh_which_never_asks() {
        let origin = Origin::of(&[("a.yaml", "a: 1")]);
        let dir = tempfile::tempdir().unwrap();
        let ssh = program(dir.path(), RUN);
        let url = format!("ssh://git@example.com:2222{}/.git", origin.url());
        let source = Git::new(&url).ssh(&ssh, ["-i", "key"]).yaml();
        assert_eq!(*source.read().await.unwrap().revision.0, *origin.head());
        let arguments = fs::read_to_string(dir.path().join("arguments")).unwrap();
        for expected in [
            "BatchMode=yes\n",
            "-i\nkey\n-p\n2222\ngit@example.com\ngit-upload-pack '",
        ] {
            assert!(arguments.contains(expected), "{arguments}");
        }
        for wrong in [
            "ssh://-oProxyCommand=x/a",
            "-oProxyCommand=x:a",
            "ssh://-x@example.com/a",
        ] {
            let said = refusal(&Git::new(wrong).ssh(&ssh, []).yaml()).await;
            assert!(said.contains("check"), "{wrong}: {said}");
        }
    }

    #[tokio::test]
    async fn what_ssh_complains_about_is_in_the_problem() {
        let dir = tempfile::tempdir().unwrap();
        let ssh = program(
            dir.path(),
            "echo 'Host key verification failed.' >&2; exit 255",
        );
        let said = refusal(&Git::new("git@example.com:a.git").ssh(&ssh, []).yaml()).await;
        assert!(said.contains("(Host key verification failed.)"), "{said}");
        let missing = dir.path().join("missing");
        let none = Git::new("git@example.com:a.git").ssh(missing.to_str().unwrap(), []);
        let said = refusal(&none.yaml()).await;
        assert!(
            said.contains("cannot run the program") && said.contains("install it"),
            "{said}"
        );
    }

    #[tokio::test]
    async fn r44_server_that_does_not_answer_is_given_up() {
        let origin = Origin::of(&[("a.yaml", "a: 1")]);
        let dir = tempfile::tempdir().unwrap();
        // A pipe whose other end tells that the program has begun; then it says nothing.
        let begun = dir.path().join("begun");
        let fifo = std::process::Command::new("mkfifo").arg(&begun).status();
        assert!(fifo.unwrap().success());
        let silent = format!("echo > '{}'; exec tail -f /dev/null", begun.display());
        let ssh = program(dir.path(), &silent);
        let url = format!("ssh://example.com{}/.git", origin.url());
        let source = Git::new(&url).ssh(&ssh, []).yaml();
        let mut reading = source.read();
        assert!(reading.as_mut().now_or_never().is_none());
        tokio::task::spawn_blocking(move || fs::read(begun))
            .await
            .unwrap()
            .unwrap();
        assert!(
            reading.as_mut().now_or_never().is_none(),
            "the executor is free"
        );
        drop(reading);
        program(dir.path(), RUN);
        // Its thread ends without further ado, and so the next reading begins.
        let read = ended(&source).await;
        assert_eq!(*read.unwrap().revision.0, *origin.head());
    }
}
