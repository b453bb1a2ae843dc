//! Descriptors of messages: from a file that `protoc` or `buf` has written, or compiled from `.proto` files.

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use plugin_sdk::Problem;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use protox::Compiler;

use crate::schema::with_causes;

/// The descriptors of some files, with those that they import. Cheap to clone.
///
/// ```
/// use plugins_protobuf::Descriptors;
/// # let dir = tempfile::tempdir()?;
/// # std::fs::write(dir.path().join("service.proto"), r#"syntax = "proto3"; package shop.v1; message Service {}"#)?;
/// let compiled = Descriptors::compile([dir.path()], ["service.proto"])?;
/// assert_eq!(compiled.message("shop.v1.Service")?.full_name(), "shop.v1.Service");
/// let missing = compiled.message("shop.v1.Servce").unwrap_err();
/// assert_eq!(missing.message, "there is no message `shop.v1.Servce`; name one of: shop.v1.Service");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Descriptors(DescriptorPool);

impl Descriptors {
    /// Compiles `.proto` files and what they import. Both are found in the directories `includes`, the first that has
    /// them; those of Google's well-known types are always there. The program `protoc` is not needed.
    ///
    /// # Errors
    /// The first file that is missing or wrong, with line and column where they are known.
    pub fn compile<I: AsRef<Path>, F: AsRef<Path>>(
        includes: impl IntoIterator<Item = I>,
        files: impl IntoIterator<Item = F>,
    ) -> Result<Self, Problem> {
        let mut compiler = Compiler::new(includes).map_err(|error| problem(&error))?;
        compiler.include_imports(true);
        compiler
            .open_files(files)
            .map_err(|error| problem(&error))?;
        Ok(Self(compiler.descriptor_pool()))
    }

    /// Reads the bytes of a `FileDescriptorSet` with all its imports, as `protoc --include_imports --descriptor_set_out`
    /// and `buf build -o` write it.
    ///
    /// # Errors
    /// When the bytes are not such a set, or an import is not part of it.
    pub fn decode(set: &[u8]) -> Result<Self, Problem> {
        let pool = DescriptorPool::decode(set).map_err(|error| {
            let why = with_causes(&error);
            Problem::new(format!(
                "not a complete FileDescriptorSet: {why}; write it with `protoc --include_imports --descriptor_set_out`"
            ))
        });
        pool.map(Self)
    }

    /// Reads a `FileDescriptorSet` from a file, as [`decode`](Self::decode) does.
    ///
    /// # Errors
    /// As [`decode`](Self::decode). Also when the file cannot be read.
    pub fn read(file: impl Into<PathBuf>) -> Result<Self, Problem> {
        let file = file.into();
        let at = |problem: Problem| problem.at(file.to_string_lossy(), 0, 0);
        let bytes = std::fs::read(&file).map_err(|error| at(Problem::new(error)))?;
        Self::decode(&bytes).map_err(at)
    }

    /// The descriptor of a message by its full name, such as `shop.v1.Service`.
    ///
    /// # Errors
    /// When there is no such message.
    pub fn message(&self, name: &str) -> Result<MessageDescriptor, Problem> {
        self.0.get_message_by_name(name).ok_or_else(|| {
            let all = self.0.all_messages();
            let names = all.map(|message| message.full_name().to_owned());
            let own = names.filter(|name| !name.starts_with("google.protobuf."));
            let names = own.take(10).collect::<Vec<_>>().join(", ");
            Problem::new(format!(
                "there is no message `{name}`; name one of: {names}"
            ))
        })
    }

    /// The pool of all descriptors, for other uses of them.
    pub fn pool(&self) -> &DescriptorPool {
        &self.0
    }
}

/// The problem for an error of the compiler, with its position.
fn problem(error: &protox::Error) -> Problem {
    let mut problem = Problem::new(with_causes(error));
    let Some(file) = error.file() else {
        return problem;
    };
    let label = error.labels().and_then(|mut labels| labels.next());
    let position = label.and_then(|label| {
        let content = error.source_code()?.read_span(label.inner(), 0, 0).ok()?;
        Some((content.line() + 1, content.column() + 1))
    });
    let (line, column) = position.unwrap_or_default();
    let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    problem = problem.at(file, number(line), number(column));
    // The position, which the message begins with too.
    let repeated = format!("{file}:{line}:{column}: ");
    if let Some(message) = problem.message.strip_prefix(&repeated) {
        problem.message = message.to_owned();
    }
    problem
}
