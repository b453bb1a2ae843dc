//! The processes of the program: one for each target, and the one that watches them.

use std::{
    fs::File,
    os::unix::{fs::FileExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::{
    process::{Resource, Rlimit, Signal, setrlimit},
    time::{ClockId, clock_gettime},
};

use crate::{
    Options,
    judge::{Bounds, Judge},
    minimise::minimise,
    random::hash,
    report,
    run::{Finding, run},
    target::{Broken, Effort, Target},
};

/// Most address space of a target's process, in bytes.
const MEMORY: u64 = 4 << 30;
/// Processor time after which one input again is a run without an end, in seconds.
const ENDLESS: u64 = 20;
/// Most inputs that are tried to find a smaller one, each in a process of its own.
const CANDIDATES: usize = 500;
/// The stack on which targets run, as that of a thread of tokio.
const STACK: usize = 2 << 20;
/// The law for processes.
const ENDS: &str = "the process of a run ends by itself";

type Make = fn() -> Box<dyn Target>;

/// Runs a target in a process of its own. Returns whether it found nothing.
pub(crate) fn watched(name: &str, options: &Options) -> bool {
    let Ok(noted) = tempfile::NamedTempFile::new() else {
        return failed("there is no room for temporary files; make room");
    };
    let (seconds, seed) = (options.seconds.to_string(), options.seed.to_string());
    let inputs = options.inputs.to_string();
    let own = [
        name,
        "--seconds",
        &seconds,
        "--inputs",
        &inputs,
        "--seed",
        &seed,
        "--alone",
    ];
    let ended = called(&own, noted.path(), Stdio::inherit());
    let Some(signal) = ended.and_then(|ended| ended.signal()) else {
        return ended.is_some_and(|ended| ended.success());
    };
    let (after, input) = read(noted.path());
    let fails = |candidate: &[u8]| {
        let file = keep(name, candidate);
        let ended = called(&[name, "--input"], &file, Stdio::null());
        std::fs::remove_file(&file).ok();
        ended.is_some_and(|ended| ended.signal() == Some(signal))
    };
    let input = match signal == Signal::XCPU.as_raw() || !fails(&input) {
        // Without an end, each candidate takes long; and what does not fail again cannot be minimised.
        true => input,
        false => minimise(&input, CANDIDATES, fails),
    };
    let details =
        format!("it was ended by signal {signal}: too deep, too much memory, or without an end");
    let broken = Broken { law: ENDS, details };
    report(
        name,
        options.seed,
        &Finding {
            input,
            broken,
            after,
        },
    );
    false
}

/// Runs a target in this process, and notes each input in the file `noted` before it is run.
pub(crate) fn alone(make: Make, options: &Options, noted: &Path) -> bool {
    limit(options.seconds + ENDLESS);
    let Ok(file) = File::options().write(true).open(noted) else {
        return failed("the file for the input cannot be opened; run it again");
    };
    let (began, most) = (now(), Duration::from_secs(options.seconds));
    let (seed, most_inputs) = (options.seed, options.inputs);
    apart(move || {
        let target = make();
        let ran = run(&*target, seed, Bounds::of_process(), |inputs, input| {
            note(&file, inputs, input);
            inputs < most_inputs && now().saturating_sub(began) < most
        });
        match ran {
            Ok(figures) => {
                let seconds = now().saturating_sub(began).as_secs_f64();
                println!("{}", report::figures(target.name(), figures, seconds));
                true
            }
            Err(finding) => {
                report(target.name(), seed, &finding);
                false
            }
        }
    })
}

/// Runs the bytes of one file, thoroughly.
pub(crate) fn once(make: Make, file: &Path) -> bool {
    limit(ENDLESS);
    let Ok(input) = std::fs::read(file) else {
        return failed("the file with the input cannot be read; correct its path");
    };
    apart(move || {
        let target = make();
        let mut judge = Judge::new(&*target, Bounds::of_process());
        let ran = judge
            .run(&input, Effort::Quick)
            .and_then(|_| judge.run(&input, Effort::Thorough));
        match ran {
            Ok(_) => println!("{}: no law is broken", target.name()),
            Err(Broken { law, details }) => {
                println!("{}: broken law: {law}\n{details}", target.name());
                return false;
            }
        }
        true
    })
}

fn failed(message: &str) -> bool {
    println!("{message}");
    false
}

/// Prints a finding, and keeps its input in a file.
fn report(name: &str, seed: u64, finding: &Finding) {
    let file = keep(name, &finding.input);
    println!("{}", report::finding(name, seed, finding, &file));
}

/// Writes an input to a file of its own.
fn keep(name: &str, input: &[u8]) -> PathBuf {
    let file = std::env::temp_dir().join(format!("fuzz-{name}-{:016x}", hash(input)));
    if let Err(error) = std::fs::write(&file, input) {
        println!("the input cannot be kept in {}: {error}", file.display());
    }
    file
}

/// Calls this program.
fn called(arguments: &[&str], file: &Path, output: Stdio) -> Option<ExitStatus> {
    let program = std::env::current_exe().ok()?;
    Command::new(program)
        .args(arguments)
        .arg(file)
        .stdout(output)
        .stderr(Stdio::null())
        .status()
        .ok()
}

/// Calls a function on a stack of a known size.
fn apart(function: impl FnOnce() -> bool + Send + 'static) -> bool {
    // The messages of panics: they are findings, and printed as such.
    std::panic::set_hook(Box::new(|_| {}));
    let thread = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(function);
    thread.is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// Limits this process. It has no core dumps, because an end by a signal is expected.
fn limit(seconds: u64) {
    let limits = [
        (Resource::As, MEMORY),
        (Resource::Cpu, seconds),
        (Resource::Core, 0),
    ];
    for (resource, most) in limits {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        if setrlimit(resource, limit).is_err() {
            println!("the limits of the process cannot be set; it runs without them");
        }
    }
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// Writes an input to the file from which the watching process reads it, should this process end.
fn note(file: &File, inputs: u64, input: &[u8]) {
    let head = [inputs.to_le_bytes(), (input.len() as u64).to_le_bytes()].concat();
    // A note that fails is missed only if this process ends.
    _ = file.write_all_at(&[&*head, input].concat(), 0);
}

/// Reads the note of a process that has ended: the number of inputs before the last one, and that one.
fn read(noted: &Path) -> (u64, Vec<u8>) {
    let bytes = std::fs::read(noted).unwrap_or_default();
    let word = |at: usize| {
        bytes
            .get(at..at + 8)
            .and_then(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
    };
    let length = word(8).unwrap_or_default() as usize;
    let input = bytes.get(16..16 + length).unwrap_or_default();
    (word(0).unwrap_or_default(), input.to_vec())
}
