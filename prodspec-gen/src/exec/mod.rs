//! The output of a program as a source of truth: what Kustomize, Helm, Jsonnet, CUE or a script of your own prints.
//! Needs the feature `files`.

mod call;
mod capture;
mod group;
mod inputs;
mod kept;
mod kustomization;
mod program;
mod recipes;
mod run;
mod task;

use std::{
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt, pending, select_all};
use plugin_sdk::{Problems, Reading, SourceOfTruth, Update, document::FieldPath};
use prodspec_model::{Revision, SourceName};

use self::{call::Call, kept::Kept, program::Program, task::Task};
use crate::{
    abandoned::Abandoned,
    file::watch,
    format::{Format, Json, Limits, Toml, Yaml},
};

/// A source of truth that is the output of a program. It runs again only when one of its declared inputs, or the program
/// itself, has changed.
///
/// ```
/// use plugin_sdk::SourceOfTruth;
/// use prodspec_gen::Exec;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let repository = tempfile::tempdir()?;
/// std::fs::write(repository.path().join("render.sh"), "echo \"region: $REGION\"; cat jobs.yaml")?;
/// std::fs::write(repository.path().join("jobs.yaml"), "jobs: 3")?;
///
/// let rendered = Exec::new("rendered", "sh")
///     .arg("render.sh")
///     .current_dir(repository.path())
///     .input("render.sh")
///     .input("jobs.yaml")
///     .env("REGION", "eu")
///     .env("PATH", "/usr/bin:/bin"); // for `cat`
/// let reading = rendered.read().await?;
/// assert_eq!(reading.documents[0].name(), "output of `sh render.sh`#0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// **Inputs.** Everything that the output depends on has to be declared: a change of another file is not noticed. The
/// inputs are listed and digested before and after each run. If one has changed meanwhile, the program runs again, three
/// times at most; then the reading is refused. So the program must not write what is declared as input.
///
/// **Environment.** The program sees the declared variables only, not those of this process. One that starts other
/// programs needs a declared `PATH`. Its standard input is empty. Paths in arguments and inputs are relative to
/// [`current_dir`](Self::current_dir).
///
/// **Errors.** An exit status other than 0 is an error with the first and last 4 KiB of standard error, and so is output
/// that is empty, is not UTF-8, does not parse, or lacks a required [end marker](Self::with_end_marker). A run that failed
/// is repeated with the next reading.
///
/// **Templates.** The output is rendered: `{{ x }}` in it is text, wherever the format allows it.
///
/// **Limits.** A program that misses its [`deadline`](Self::deadline) or prints more than
/// [`output_limit`](Self::output_limit) is killed with its process group, and so is one whose reading was given up.
/// Processes that it leaves behind in its group are killed when it has ended; if one of them keeps the output open for
/// another second, that is an error. A process that moved to another group is not found.
///
/// Available on Unix.
#[derive(Debug, Clone)]
pub struct Exec {
    task: Arc<Task>,
    /// The readings that were given up and still hold their threads.
    late: Abandoned,
    /// What was read last. Clones with the same settings share it.
    kept: Arc<Mutex<Kept>>,
}

impl Exec {
    /// A source named `name` that reads the output of `program` as YAML. A program without a `/` in its name is found on
    /// the `PATH` of this process, now and not again. If it is missing, each reading says so.
    pub fn new(name: &str, program: impl Into<OsString>) -> Self {
        let program = Program::find(program.into(), env::var_os("PATH").as_deref());
        Self {
            task: Arc::new(Task::new(name.into(), program)),
            late: Abandoned::default(),
            kept: Arc::default(),
        }
    }

    /// Changes a setting. What was read with other settings is forgotten.
    fn set(mut self, change: impl FnOnce(&mut Task)) -> Self {
        self.kept = Arc::default();
        change(Arc::make_mut(&mut self.task));
        self
    }

    /// Sets the name of the source, under which generators read it.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.set(|task| task.parsing.source = name.into())
    }

    /// Finds the program in other directories than those of this process's `PATH`. `path` has the form of `PATH`;
    /// relative directories in it are ignored.
    #[must_use]
    pub fn find_on(self, path: impl AsRef<OsStr>) -> Self {
        self.set(|task| task.program = task.program.clone().find_again(path.as_ref()))
    }

    /// Adds one argument after those that were already added.
    #[must_use]
    pub fn arg(self, arg: impl Into<OsString>) -> Self {
        self.set(|task| task.args.push(arg.into()))
    }

    /// Adds arguments after those that were already added.
    #[must_use]
    pub fn args<A: Into<OsString>>(self, args: impl IntoIterator<Item = A>) -> Self {
        self.set(|task| task.args.extend(args.into_iter().map(Into::into)))
    }

    /// Sets a variable of the program's environment, which is empty otherwise.
    #[must_use]
    pub fn env(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set(|task| drop(task.env.0.insert(name.into(), value.into())))
    }

    /// Declares a file, or a directory with everything below it, as an input of the program. A change of it runs the
    /// program again.
    ///
    /// Links are followed, and hidden files count too; only the content of directories named `.git` does not. At most
    /// 20,000 files in 16 levels of directories.
    #[must_use]
    pub fn input(self, path: impl Into<PathBuf>) -> Self {
        self.set(|task| task.inputs.push(path.into()))
    }

    /// Sets the working directory of the program. By default it is that of this process.
    #[must_use]
    pub fn current_dir(self, dir: impl Into<PathBuf>) -> Self {
        self.set(|task| task.dir = Some(dir.into()))
    }

    /// Reads the output as YAML with one or more documents, the default.
    #[must_use]
    pub fn yaml(self) -> Self {
        self.format::<Yaml>()
    }

    /// Reads the output as JSON, which is one document.
    #[must_use]
    pub fn json(self) -> Self {
        self.format::<Json>()
    }

    /// Reads the output as TOML, which is one document.
    #[must_use]
    pub fn toml(self) -> Self {
        self.format::<Toml>()
    }

    /// Reads the output in the format `F`, such as one of your own.
    #[must_use]
    pub fn format<F: Format>(self) -> Self {
        self.set(Task::format::<F>)
    }

    /// Requires the format's [end marker](Format::END) as the last line of the output, `...` for YAML. Output that was
    /// cut off at the end of a line is then noticed too.
    #[must_use]
    pub fn with_end_marker(self) -> Self {
        self.set(|task| task.parsing.end_marker = true)
    }

    /// Sets the field that gives each document its name, as
    /// [`Files::documents_named_by`](crate::file::Files::documents_named_by) does.
    #[must_use]
    pub fn documents_named_by(self, field: FieldPath) -> Self {
        self.set(|task| task.parsing.named_by = Some(field))
    }

    /// Sets the time that a run may take. 20 seconds by default. Keep it below the
    /// [`read_deadline`](crate::kernel::Timing::read_deadline) of the pipeline, which gives up the reading and says
    /// less about the reason.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.set(|task| task.deadline = deadline)
    }

    /// Sets the maximum length of the output, in bytes. 16 MiB by default.
    #[must_use]
    pub fn output_limit(self, bytes: u64) -> Self {
        self.set(|task| task.parsing.limits.bytes = bytes)
    }

    /// Sets the maximum length of all inputs together, in bytes. 64 MiB by default.
    #[must_use]
    pub fn input_limit(self, bytes: u64) -> Self {
        self.set(|task| task.input_limit = bytes)
    }

    /// Sets the limits of parsing: `bytes` is the [`output_limit`](Self::output_limit), `depth` and `expansion` are
    /// those of the format.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        self.set(|task| task.parsing.limit(limits))
    }

    /// Gives a hint when an input may have changed. Hidden directories and the directories behind links in an input give
    /// none; their changes are noticed with the next reading, as are those of the program.
    #[must_use]
    pub fn watched(self) -> Self {
        self.set(|task| task.watched = true)
    }

    /// Reads on a thread for blocking work. Dropping the future kills the program. Until that has happened, no other
    /// reading begins.
    async fn update(&self, known: Option<Revision>) -> Result<Update, Problems> {
        let Some((running, _waiting)) = self.late.begin() else {
            let message = "an earlier run has not ended, so no other one begins; check what the program and the file system of its inputs wait for";
            return Err(self.task.problem(message).into());
        };
        let (call, _caller) = Call::begin();
        let (task, kept) = (self.task.clone(), self.kept.clone());
        let read = move || {
            let _running = running;
            let mut shared = kept.lock().unwrap_or_else(PoisonError::into_inner);
            // A reading that panics leaves nothing: the next one runs the program.
            let mut kept = std::mem::take(&mut *shared);
            let read = kept.read(&task, &call, known.as_ref());
            *shared = kept;
            read.map_err(|problems| task.parsing.said_all(problems))
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|panic| Err(self.task.problem(panic).into()))
    }
}

#[async_trait]
impl SourceOfTruth for Exec {
    fn name(&self) -> SourceName {
        SourceName(self.task.parsing.source.clone())
    }

    async fn read(&self) -> Result<Reading, Problems> {
        match self.update(None).await? {
            Update::Whole(reading) => Ok(reading),
            _ => Err(self
                .task
                .problem("gave no complete reading; report this error")
                .into()),
        }
    }

    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        self.update(Some(known.clone())).await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        if !self.task.watched || self.task.inputs.is_empty() {
            return pending().boxed();
        }
        let inputs = self.task.input_paths();
        select_all(inputs.map(|input| watch::hints(&input))).boxed()
    }
}

#[cfg(test)]
mod tests;
