//! The settings of a source that runs a program.

use std::{collections::BTreeMap, ffi::OsString, fmt, path::PathBuf, sync::Arc, time::Duration};

use plugin_sdk::{Document, Problem, Problems};

use super::program::Program;
use crate::format::{Format, Limits, Origin, Parsing, Yaml};

/// Parses the output of a program that is reported under a name.
type Parse = fn(&Parsing, &str, &[u8]) -> Result<Vec<Document>, Problems>;

/// What a source runs, with what, and how it reads the output.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) program: Program,
    pub(super) args: Vec<OsString>,
    pub(super) env: Environment,
    /// Relative to `dir`.
    pub(super) inputs: Vec<PathBuf>,
    /// The working directory. `None`: that of this process.
    pub(super) dir: Option<PathBuf>,
    pub(super) deadline: Duration,
    /// Maximum of the length of all inputs, in bytes.
    pub(super) input_limit: u64,
    pub(super) watched: bool,
    /// The Kustomize directory whose bases have to be inputs.
    pub(super) overlay: Option<PathBuf>,
    pub(super) parsing: Parsing,
    parse: Parse,
}

/// The environment of a program. Its values can be secrets, so only the names are shown.
#[derive(Clone, Default)]
pub(super) struct Environment(pub(super) BTreeMap<OsString, OsString>);

impl Task {
    pub(super) fn new(source: Arc<str>, program: Program) -> Self {
        Self {
            program,
            args: Vec::new(),
            env: Environment::default(),
            inputs: Vec::new(),
            dir: None,
            deadline: Duration::from_secs(20),
            input_limit: 64 << 20,
            watched: false,
            overlay: None,
            parsing: Parsing {
                source,
                limits: Limits {
                    rendered: true,
                    ..Limits::default()
                },
                named_by: None,
                end_marker: false,
                origin: Origin::Program,
            },
            parse: Parsing::documents::<Yaml>,
        }
    }

    pub(super) fn format<F: Format>(&mut self) {
        self.parse = Parsing::documents::<F>;
    }

    /// The documents in the output, at least one.
    pub(super) fn documents(&self, output: &[u8]) -> Result<Vec<Document>, Problems> {
        let place = self.place();
        let documents = (self.parse)(&self.parsing, &place, output)?;
        if documents.is_empty() {
            return Err(self.parsing.empty(&place).into());
        }
        Ok(documents)
    }

    /// The name of the output in documents and problems.
    pub(super) fn place(&self) -> String {
        format!("output of `{}`", self.program.command(&self.args))
    }

    /// A problem of the output as a whole.
    pub(super) fn problem(&self, message: impl fmt::Display) -> Problem {
        let problem = Problem::new(message).at(self.place(), 0, 0);
        self.parsing.said(problem)
    }

    /// The inputs, each with the path at which this process finds it.
    pub(super) fn input_paths(&self) -> impl Iterator<Item = PathBuf> {
        let dir = self.dir.clone().unwrap_or_default();
        self.inputs.iter().map(move |input| dir.join(input))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
