//! JSON Schemas of the types of a pipeline, for editors, people and other languages.

use std::{fs, io, path::Path};

use plugin_sdk::AssetTypes;

use crate::pipeline::Pipeline;

impl Pipeline {
    /// Writes the JSON Schema of each type that has one to a file in `directory`, which is made if it is missing:
    /// `TYPE.json`, such as `shakespeare.v1.FrontendJob.json`. Returns the number of files.
    ///
    /// A type has a schema if it was declared with [`AssetType::described`](plugin_sdk::AssetType::described) or
    /// [`schema`](plugin_sdk::AssetType::schema). The well-known addons have one.
    ///
    /// ```
    /// # use prodspec_gen::{Pipeline, YamlFile};
    /// # use plugin_sdk::{Drafts, Generator, GeneratorInfo, Input, Problems};
    /// # struct Model;
    /// # impl Generator for Model {
    /// #     fn info(&self) -> GeneratorInfo {
    /// #         GeneratorInfo::per_document("model", "m.yaml")
    /// #     }
    /// #     fn generate(&self, _: &Input<'_>, _: &mut Drafts) -> Result<(), Problems> {
    /// #         Ok(())
    /// #     }
    /// # }
    /// # let dir = tempfile::tempdir()?;
    /// let pipeline = Pipeline::builder(prodspec_model::PartitionId::new("example")?)
    ///     .source(YamlFile::new("m.yaml"))
    ///     .generator(Model)
    ///     .build()?;
    /// pipeline.write_schemas(dir.path())?;
    /// let owner = std::fs::read_to_string(dir.path().join("prodspec.v1.Owner.json"))?;
    /// assert!(owner.contains("\"owner\""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the directory or a file cannot be written.
    pub fn write_schemas(&self, directory: &Path) -> io::Result<usize> {
        write(self.types(), directory)
    }
}

fn write(types: &AssetTypes, directory: &Path) -> io::Result<usize> {
    fs::create_dir_all(directory)?;
    let schemas = types.schemas();
    for (name, schema) in &schemas {
        let text = serde_json::to_string_pretty(schema)?;
        fs::write(directory.join(format!("{name}.json")), text + "\n")?;
    }
    Ok(schemas.len())
}
