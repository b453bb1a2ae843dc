//! Laws of generators: equal inputs give equal output, whatever the order, the time and the process.

use std::{env, fs, path::Path, process::Command, thread};

use prodspec_model::{Asset, Digest};

use super::Violation;
use crate::{
    Document, Drafts, Entry, Generator, GeneratorInfo, Input,
    document::{FieldPath, Node, Value},
    generate::Unit,
};

/// The environment variable that tells the second process where to write its digest.
const OUTPUT: &str = "PLUGIN_SDK_GENERATOR_OUTPUT";

/// Tests that a generator is hermetic: called twice, with its inputs in another order, and in another process with another
/// environment, time zone and directory, it gives the same bytes. `documents` and `assets` are all inputs of the
/// generator; it is called once for each of its units.
///
/// Call it in a test function, once: the second process is the same test program, which runs this test only.
///
/// ```no_run
/// # use plugin_sdk::{conformance, Document, Drafts, Generator, GeneratorInfo, Input, Problems, document::Node};
/// # struct Model;
/// # impl Generator for Model {
/// #     fn info(&self) -> GeneratorInfo { GeneratorInfo::per_document("model", "m.yaml") }
/// #     fn generate(&self, _: &Input<'_>, _: &mut Drafts) -> Result<(), Problems> { Ok(()) }
/// # }
/// #[test]
/// fn model_is_hermetic() {
///     let manifest = Node::from(serde_json::json!({ "clusters": ["eu", "us"] }));
///     let manifest = Document::new("m.yaml", "m.yaml", 0, manifest);
///     conformance::generator(&Model, &[manifest], &[]).unwrap();
/// }
/// ```
///
/// # Errors
/// The first law that does not hold.
pub fn generator(
    generator: &dyn Generator,
    documents: &[Document],
    assets: &[Asset],
) -> Result<(), Violation> {
    let info = generator.info();
    let broken = |law, found: &str| Violation::new(&info.name, law, found);
    let first = output(generator, &info, documents, assets);
    if let Some(file) = env::var_os(OUTPUT) {
        let written = fs::write(file, Digest::of(&first).to_string());
        return written.map_err(|error| broken("the output can be written", &error.to_string()));
    }
    if output(generator, &info, documents, assets) != first {
        let law = "a second call gives the same output";
        return Err(broken(
            law,
            "it does not; look for counters, clocks and randomness",
        ));
    }
    let mut turned = (documents.to_vec(), assets.to_vec());
    turned.0.reverse();
    turned.1.reverse();
    if output(generator, &info, &turned.0, &turned.1) != first {
        let law = "the order of the inputs does not matter";
        return Err(broken(law, "it does; sort them, or look them up by name"));
    }
    let elsewhere = in_another_process().map_err(|why| broken("the test can run again", &why))?;
    if elsewhere != Digest::of(&first).to_string() {
        let law = "another process gives the same output";
        let found =
            "it does not; look for hash maps, the environment, the time zone and the directory";
        return Err(broken(law, found));
    }
    Ok(())
}

/// Runs the present test in another process. Returns the digest of its output.
fn in_another_process() -> Result<String, String> {
    let thread = thread::current();
    let test = thread.name().filter(|name| *name != "main");
    let test = test.ok_or("call it in a test function, in the function's own thread")?;
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let place = Digest::of(test.as_bytes()).short();
    let file = env::temp_dir().join(format!("generator-{}-{place}", std::process::id()));
    let mut command = Command::new(program);
    command.args([test, "--exact", "--include-ignored"]);
    command.env_clear().env(OUTPUT, &file);
    command
        .env("TZ", "Pacific/Kiritimati")
        .env("LANG", "tr_TR.UTF-8");
    let ran = command.current_dir(Path::new("/")).output();
    let digest = fs::read_to_string(&file);
    // The file may not be there.
    let _ = fs::remove_file(&file);
    let ran = ran.map_err(|error| error.to_string())?;
    digest.map_err(|error| {
        let said = String::from_utf8_lossy(&ran.stdout);
        format!(
            "the second process ended with {}, without an output ({error}): {said}",
            ran.status
        )
    })
}

/// All that the generator makes and reports, in an order of its own.
fn output(
    generator: &dyn Generator,
    info: &GeneratorInfo,
    documents: &[Document],
    assets: &[Asset],
) -> Vec<u8> {
    let mut all = Vec::new();
    for input in inputs(info, documents, assets) {
        let mut out = Drafts::of(&info.name);
        let ended = generator.generate(&input, &mut out);
        let (made, problems) = out.finish();
        all.extend(made.iter().map(|asset| asset.block().bytes().to_vec()));
        let problems = problems
            .into_iter()
            .chain(ended.err().into_iter().flatten());
        all.extend(problems.map(|problem| problem.to_string().into_bytes()));
    }
    all.sort();
    all.concat()
}

/// The inputs of all calls.
fn inputs<'a>(
    info: &'a GeneratorInfo,
    documents: &'a [Document],
    assets: &'a [Asset],
) -> Vec<Input<'a>> {
    let of = |source: &str, document: &&Document| *document.key().source.0 == *source;
    let reads = |document: &&Document| info.reads.iter().any(|source| of(&source.0, document));
    let shared: Vec<&Document> = documents.iter().filter(reads).collect();
    let input = |own: Option<&'a Document>| {
        let others = shared.iter().copied().filter(|other| Some(*other) != own);
        Input::new(own.into_iter().chain(others).collect(), assets)
    };
    match &info.unit {
        Unit::Whole => vec![input(None)],
        Unit::Document(source) => {
            let own = documents.iter().filter(|document| of(&source.0, document));
            own.map(|document| input(Some(document))).collect()
        }
        Unit::Entry(source, path) => {
            let path: FieldPath = path.parse().unwrap_or_default();
            let own = documents.iter().filter(|document| of(&source.0, document));
            let entries = own.flat_map(|document| entries(document, &path));
            entries
                .map(|entry| input(None).of(entry.sharing(&info.shares)))
                .collect()
        }
        Unit::Asset(_) | Unit::AnyAsset => {
            let own = assets.iter();
            let own = own.filter(|asset| info.is_called_for(asset));
            own.map(|asset| input(None).about(asset)).collect()
        }
    }
}

fn entries<'a>(document: &'a Document, path: &FieldPath) -> Vec<Entry<'a>> {
    let paths: Vec<FieldPath> = match document.root().at(path).map(|node: &Node| &node.value) {
        Some(Value::Map(entries)) => {
            let keys = entries.iter().map(|(name, _)| &*name.text);
            keys.map(|key| path.clone().key(key)).collect()
        }
        Some(Value::Sequence(items)) => {
            let places = 0..items.len();
            places.map(|nth| path.clone().index(nth)).collect()
        }
        _ => Vec::new(),
    };
    let entries = paths.iter().filter_map(|path| Entry::of(document, path));
    entries.collect()
}

#[cfg(test)]
mod tests {
    use std::{
        collections::hash_map::RandomState,
        hash::BuildHasher,
        sync::atomic::{AtomicU64, Ordering},
    };

    use prodspec_model::AssetId;
    use serde_json::json;

    use super::*;
    use crate::{Problems, testing::Thing};

    /// Makes an asset per document, with a number that a function gives.
    struct Numbers<F>(F);

    impl<F: Fn(&Input<'_>) -> u64 + Send + Sync + 'static> Generator for Numbers<F> {
        fn info(&self) -> GeneratorInfo {
            GeneratorInfo::whole("numbers")
                .reads("docs")
                .makes::<Thing>()
        }
        fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
            let id = AssetId::new(&format!("number/{}", (self.0)(input)))?;
            out.asset(
                Asset::builder(id).payload(&Thing::default())?,
                Default::default(),
            )?;
            Ok(())
        }
    }

    fn law(number: impl Fn(&Input<'_>) -> u64 + Send + Sync + 'static) -> Option<&'static str> {
        let document = |nth: u32| Document::new("docs", "docs", nth, Node::from(json!(nth)));
        let documents = [document(1), document(2)];
        generator(&Numbers(number), &documents, &[])
            .err()
            .map(|it| it.law())
    }

    #[test]
    fn r1_hermetic_generator_keeps_the_laws() {
        let sum = |input: &Input<'_>| {
            let all = input.documents().map(|it| it.read::<u64>().unwrap());
            all.sum()
        };
        assert_eq!(law(sum), None);
    }

    #[test]
    fn r1_counter_in_a_generator_is_reported() {
        let calls = AtomicU64::new(0);
        let count = move |_: &Input<'_>| calls.fetch_add(1, Ordering::Relaxed);
        assert_eq!(law(count), Some("a second call gives the same output"));
    }

    #[test]
    fn r1_order_of_inputs_in_the_output_is_reported() {
        let first = |input: &Input<'_>| input.documents().next().unwrap().read().unwrap();
        assert_eq!(law(first), Some("the order of the inputs does not matter"));
    }

    #[test]
    fn r1_random_order_of_hash_maps_is_reported() {
        let state = RandomState::new();
        let number = move |_: &Input<'_>| state.hash_one(1);
        let found = law(number);
        // The second process returns before this line: it only writes its output.
        assert!(
            found.is_none() == env::var_os(OUTPUT).is_some(),
            "{found:?}"
        );
    }
}
