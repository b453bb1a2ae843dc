//! The reasons for which parts do not make a pipeline. The builder finds most of them, the order of generators one.

use plugin_sdk::document::PathError;

/// The reasons for which parts do not make a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The generators depend on each other in a cycle.
    #[error(
        "generators form a cycle: {path}; break it by letting one of them read a source instead"
    )]
    Cycle {
        /// The cycle: pairs of generators, each with the type that one makes and the other consumes.
        path: String,
    },
    /// Two parts of the same kind have the same name.
    #[error("two {kind} are called `{name}`; rename one")]
    Duplicate {
        /// The kind of the parts: `sources` or `generators`.
        kind: &'static str,
        /// The name that both parts have.
        name: String,
    },
    /// A generator reads a source that the pipeline does not have.
    #[error(
        "the generator `{generator}` reads `{source_name}`, which is not a source of this pipeline; add it, or correct its name"
    )]
    UnknownSource {
        /// The generator that reads the source.
        generator: String,
        /// The name of the missing source.
        source_name: String,
    },
    /// A generator declares a field path that is not one.
    #[error("the generator `{generator}` declares a path that is not a field path; correct it")]
    WrongPath {
        /// The generator that declares the path.
        generator: String,
        /// The path, and what is wrong with it.
        source: PathError,
    },
    /// A generator consumes a type that no generator makes.
    #[error(
        "the generator `{generator}` consumes `{type_name}`, which no generator makes; add a generator that makes it"
    )]
    NoProducer {
        /// The generator that consumes the type.
        generator: String,
        /// The type that no generator makes.
        type_name: String,
    },
    /// A generator that is called for assets of any type declares that it makes assets. No generator before it could be
    /// called for them.
    #[error(
        "the generator `{generator}` is called for assets of any type and declares that it makes `{type_name}`; such a generator only amends, so make the assets in another one"
    )]
    MakesAssets {
        /// The generator that is called for assets of any type.
        generator: String,
        /// The type that it declares.
        type_name: String,
    },
    /// The pipeline has no source or no generator.
    #[error("a pipeline needs at least one source and one generator")]
    Empty,
}
