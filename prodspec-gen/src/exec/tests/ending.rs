//! The end of a run: nothing that the program started is left running, however it ends.

use std::{fs::File, io::Read, process::Command, thread, time::Duration};

use futures::channel::oneshot;
use plugin_sdk::SourceOfTruth;

use super::{Exec, Script, read, refused};

/// Bound of all waits, far beyond what a busy machine needs.
const LONG: Duration = Duration::from_secs(60);

/// Watches all processes that have a named pipe open for writing.
struct Alive {
    started: oneshot::Receiver<()>,
    gone: oneshot::Receiver<()>,
}

impl Alive {
    /// Makes the pipe `alive` in the directory of a script.
    fn watch(script: &Script) -> Self {
        let path = make_pipe(script, "alive");
        let (start, started) = oneshot::channel();
        let (end, gone) = oneshot::channel();
        thread::spawn(move || {
            let mut pipe = File::open(path).unwrap();
            let _ = start.send(());
            pipe.read_to_end(&mut Vec::new()).unwrap();
            let _ = end.send(());
        });
        Self { started, gone }
    }

    /// Waits until no process has the pipe open any more.
    async fn gone(self) {
        tokio::time::timeout(LONG, self.gone)
            .await
            .unwrap()
            .unwrap();
    }
}

fn make_pipe(script: &Script, name: &str) -> std::path::PathBuf {
    let path = script.path(name);
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    path
}

/// Opens the pipe, starts another process that has it too, and says so.
const START: &str = "exec 3> alive; sleep 600 & echo working >&2; echo > started";

/// Reads with a short deadline; a longer one if the machine is too busy for the program to come as far as `started`.
async fn refused_when_late(text: &str) -> (String, Alive) {
    for deadline in [200, 2_000, 20_000].map(Duration::from_millis) {
        let script = Script::new(text);
        let alive = Alive::watch(&script);
        let said = refused(&script.source().deadline(deadline)).await;
        if script.path("started").exists() {
            return (
                said.replace(&format!("{deadline:?}"), "the deadline"),
                alive,
            );
        }
    }
    panic!("the program did not start within 20 s");
}

#[tokio::test]
async fn r46_program_that_hangs_is_killed_at_its_deadline_with_what_it_started() {
    let (said, alive) = refused_when_late(&format!("{START}; wait")).await;
    let what = "did not end within the deadline and was killed with its process group; make it faster, or raise the deadline; standard error: working";
    assert!(said.contains(what), "{said}");
    alive.gone().await;
}

#[tokio::test]
async fn r46_program_that_closed_its_output_and_hangs_is_killed_at_its_deadline() {
    let closed = format!("echo 'a: 1'; {START}; exec > /dev/null 2>&1; wait");
    let (said, alive) = refused_when_late(&closed).await;
    assert!(said.contains("did not end within the deadline"), "{said}");
    alive.gone().await;
}

#[tokio::test]
async fn r46_program_that_prints_without_end_is_killed() {
    let script = Script::new("exec 3> alive; sleep 600 & yes -- '- a line'");
    let alive = Alive::watch(&script);
    let said = refused(&script.source().output_limit(100_000).deadline(LONG)).await;
    let what = "printed more than 100000 bytes and was killed with its process group; print less";
    assert!(said.contains(what), "{said}");
    alive.gone().await;
}

#[tokio::test]
async fn r46_standard_error_without_end_is_cut_in_the_middle() {
    let text = "exec 3> alive; yes | head -c 100000 >&2; echo > started; yes >&2";
    let (said, alive) = refused_when_late(text).await;
    assert!(said.contains("bytes left out]"), "{said}");
    alive.gone().await;
}

#[tokio::test]
async fn r46_output_of_exactly_the_limit_is_read() {
    let script = Script::new("printf 'a: 12345'");
    read(&script.source().output_limit(8)).await;
    let said = refused(&script.source().output_limit(7)).await;
    assert!(said.contains("printed more than 7 bytes"), "{said}");
}

#[tokio::test]
async fn r46_process_that_keeps_the_output_open_is_killed_and_reported() {
    let script = Script::new("exec 3> alive; echo 'a: 1'; sleep 600 &");
    let alive = Alive::watch(&script);
    let said = refused(&script.source().deadline(LONG)).await;
    assert!(
        said.contains("a process that it started kept its output open"),
        "{said}"
    );
    alive.gone().await;
}

#[tokio::test]
async fn r46_process_of_another_group_that_keeps_the_output_open_holds_up_no_reading() {
    let script = Script::new("echo 'a: 1'; setsid cat until &");
    let until = make_pipe(&script, "until");
    let said = refused(&script.source().deadline(LONG)).await;
    assert!(
        said.contains("a process that it started kept its output open"),
        "{said}"
    );
    // Ends `cat`, which reads from the pipe and has survived.
    drop(File::options().write(true).open(until).unwrap());
}

#[tokio::test]
async fn r46_silent_process_left_behind_is_killed_after_the_run() {
    let script = Script::new("exec 3> alive; echo 'a: 1'; sleep 600 > /dev/null 2>&1 &");
    let alive = Alive::watch(&script);
    read(&script.source().deadline(LONG)).await;
    alive.gone().await;
}

#[tokio::test]
async fn r46_dropping_the_reading_kills_the_program_with_what_it_started() {
    let script = Script::new(&format!("{START}; wait"));
    let mut alive = Alive::watch(&script);
    let source = script.source().deadline(LONG);
    tokio::select! {
        read = source.read() => panic!("{read:?}"),
        started = &mut alive.started => started.unwrap(),
    }
    alive.gone().await;
    // The source is usable again as soon as the thread of that reading has ended.
    script.write("render.sh", "echo 'a: 1'");
    let again = async {
        while source.read().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, again).await.unwrap();
}

#[test]
fn r46_no_run_begins_while_an_abandoned_one_has_not_ended() {
    let script = Script::new("echo 'a: 1'");
    let source = script.source();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stuck = source.kept.lock().unwrap();
    runtime.block_on(async {
        let mut read = source.read();
        assert!(futures::poll!(read.as_mut()).is_pending());
        drop(read);
        let said = refused(&source).await;
        assert!(
            said.contains("an earlier run has not ended, so no other one begins"),
            "{said}"
        );
    });
    drop(stuck);
    runtime.block_on(async {
        while source.read().await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(script.runs(), 1, "the abandoned reading runs nothing");
}

#[tokio::test]
async fn r46_readings_at_the_same_time_run_the_program_once() {
    let script = Script::new("echo 'a: 1'");
    let source: Exec = script.source();
    let (one, other) = futures::join!(source.read(), source.read());
    assert_eq!(one.unwrap(), other.unwrap());
    assert_eq!(script.runs(), 1);
}
