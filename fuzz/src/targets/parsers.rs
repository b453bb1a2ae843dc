//! Parsers of texts: YAML, JSON, TOML and Kubernetes manifests.

use std::collections::BTreeSet;

use plugin_sdk::{
    Document, Problems,
    document::{Node, Value},
};
use prodspec_gen::{
    file::{Files, OneFile},
    format::{Format, Json, Limits, Yaml},
};
use serde_json::Value as JsonValue;

use super::{
    LIMITS,
    values::{Shape, lines},
};
use crate::target::{Broken, Class, Effort, Target, law};

/// A law of the documents in a text that was accepted.
pub(crate) type Law = fn(&str, &[Document]) -> Result<(), Broken>;

/// The parser of a format, as a source of one file calls it.
pub(crate) struct Parser<F> {
    name: &'static str,
    seeds: fn() -> Vec<Vec<u8>>,
    words: &'static [&'static str],
    laws: &'static [Law],
    file: Files<OneFile<F>>,
}

impl<F: Format> Parser<F> {
    /// The parser with the laws that only its format has.
    pub(crate) fn new(
        name: &'static str,
        seeds: fn() -> Vec<Vec<u8>>,
        words: &'static [&'static str],
        laws: &'static [Law],
    ) -> Self {
        let file = Files::new("input").limits(LIMITS);
        Self {
            name,
            seeds,
            words,
            laws,
            file,
        }
    }
}

impl<F: Format> Target for Parser<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }

    fn words(&self) -> &'static [&'static str] {
        self.words
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        let (first, second) = (self.file.parse(input), self.file.parse(input));
        match (first, second) {
            (Ok(first), Ok(second)) => {
                let (first, second) = (first.documents, second.documents);
                same(&first, &second)?;
                accepted(input, &first, self.laws)
            }
            (Err(first), Err(second)) => {
                law(first == second, AGAIN, || format!("{first}\nthen {second}"))?;
                refused(input, &first)
            }
            (first, second) => law(false, AGAIN, || format!("{first:?}\nthen {second:?}"))
                .map(|()| Class::accepted(&[])),
        }
    }
}

const AGAIN: &str = "a text that is parsed again gives the same";

/// Checks that both readings of a text are equal, with all positions.
pub(crate) fn same(first: &[Document], second: &[Document]) -> Result<(), Broken> {
    let equal =
        first.len() == second.len() && first.iter().zip(second).all(|(a, b)| a.is_identical(b));
    law(equal, AGAIN, || format!("{first:?}\nthen {second:?}"))
}

fn refused(input: &[u8], problems: &Problems) -> Result<Class, Broken> {
    let last = u32::try_from(
        input
            .iter()
            .filter(|byte| **byte == b'\n' || **byte == b'\r')
            .count()
            + 2,
    );
    let mut class = Class::accepted(&[]);
    for problem in problems.iter().take(3) {
        let within = (1..=last.unwrap_or(u32::MAX)).contains(&problem.line);
        law(
            within && !problem.message.is_empty(),
            "a refusal has a message and a line of the text",
            || problem.to_string(),
        )?;
        class = class.and(Class::refused(&problem.message));
    }
    Ok(class)
}

fn accepted(input: &[u8], documents: &[Document], laws: &[Law]) -> Result<Class, Broken> {
    let text = std::str::from_utf8(input);
    law(
        text.is_ok(),
        "a text that is not UTF-8 is refused",
        String::new,
    )?;
    let text = text.unwrap_or_default();
    let roots: Vec<&Node> = documents.iter().map(Document::root).collect();
    let shape = Shape::of(roots.iter().copied());
    within_limits(text, &roots, &shape)?;
    for document in documents {
        let (read, json) = (document.read::<JsonValue>(), document.root().to_json());
        law(
            read.as_ref() == Ok(&json),
            "a document is read as its own JSON",
            || format!("{read:?}\nbut {json}"),
        )?;
    }
    laws.iter().try_for_each(|law| law(text, documents))?;
    Ok(Class::accepted(
        &[&[documents.len()][..], &shape.numbers()].concat(),
    ))
}

fn within_limits(text: &str, roots: &[&Node], shape: &Shape) -> Result<(), Broken> {
    law(
        shape.depth <= LIMITS.depth,
        "an accepted text is not nested deeper than the limit",
        || format!("{shape:?}"),
    )?;
    let most = LIMITS.expansion + 65 * (text.len() + 2);
    let size = shape.bytes + 64 * shape.values;
    law(
        size <= most,
        "aliases expand to no more than the limit",
        || format!("{size} bytes, {most} are allowed"),
    )?;
    let last = u32::try_from(text.matches(['\n', '\r']).count() + 1).unwrap_or(u32::MAX);
    for (most, least) in roots.iter().map(|root| lines(root)) {
        law(
            least >= 1 && most <= last,
            "values have lines of the text",
            || format!("lines {least} to {most} of {last}"),
        )?;
    }
    Ok(())
}

/// Law: the values, written as JSON and parsed as JSON, are the same.
pub(crate) fn as_json(_: &str, documents: &[Document]) -> Result<(), Broken> {
    const LAW: &str = "values that are written as JSON and parsed again are the same";
    let limits = Limits {
        bytes: u64::MAX,
        ..LIMITS
    };
    for document in documents {
        let json = document.root().to_json();
        let again = Json::parse(&json.to_string(), &limits);
        let equal = again
            .as_ref()
            .is_ok_and(|roots| roots.len() == 1 && sorted(&roots[0]) == sorted(document.root()));
        law(equal, LAW, || format!("{json}\ngives {again:?}"))?;
    }
    Ok(())
}

/// The value with its entries in order, and 0 for -0: a reader may take it for an integer.
fn plain(node: Node) -> Node {
    let mut node = sorted(&node);
    unsigned(&mut node);
    node
}

fn unsigned(node: &mut Node) {
    match &mut node.value {
        Value::Float(number) if *number == 0.0 && number.is_sign_negative() => {
            node.value = Value::Int(0)
        }
        Value::Sequence(items) => items.iter_mut().for_each(unsigned),
        Value::Map(entries) => entries.iter_mut().for_each(|(_, value)| unsigned(value)),
        _ => {}
    }
}

/// The value with the entries of all maps in order.
fn sorted(node: &Node) -> Node {
    let value = match &node.value {
        Value::Map(entries) => {
            let mut entries: Vec<_> = entries
                .iter()
                .map(|(name, value)| (name.clone(), sorted(value)))
                .collect();
            entries.sort_by(|(a, _), (b, _)| a.text.cmp(&b.text));
            Value::Map(entries)
        }
        Value::Sequence(items) => Value::Sequence(items.iter().map(sorted).collect()),
        other => other.clone(),
    };
    Node { value, ..*node }
}

/// Law: values of JSON are those of `serde_json`, the reference reader.
pub(crate) fn as_reference(text: &str, documents: &[Document]) -> Result<(), Broken> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let reference = serde_json::from_str::<JsonValue>(text);
    let [document] = documents else {
        return law(false, "a JSON text is one document", || {
            format!("{documents:?}")
        });
    };
    let ours = document.root().to_json();
    let equal = reference
        .as_ref()
        .is_ok_and(|reference| plain(reference.clone().into()) == plain(document.root().clone()));
    law(
        equal,
        "values of JSON are those of the reference reader",
        || format!("{ours}\nbut {reference:?}"),
    )
}

/// Law: a JSON text is read the same as YAML, or refused.
pub(crate) fn as_yaml(text: &str, documents: &[Document]) -> Result<(), Broken> {
    let Ok(yaml) = Yaml::parse(text, &LIMITS) else {
        return Ok(());
    };
    let json: Vec<&Node> = documents.iter().map(Document::root).collect();
    let equal = yaml.iter().eq(json.iter().copied());
    law(
        equal,
        "a JSON text is read the same as YAML, or refused",
        || format!("{yaml:?}\nbut {json:?}"),
    )
}

/// Law: objects have names, each its own.
pub(crate) fn as_objects(_: &str, documents: &[Document]) -> Result<(), Broken> {
    let names: BTreeSet<String> = documents.iter().map(Document::name).collect();
    law(
        names.len() == documents.len(),
        "each object has a name of its own",
        || format!("{names:?}"),
    )?;
    let short = names.iter().find(|name| name.split('/').any(str::is_empty));
    law(
        short.is_none(),
        "names of objects have no empty parts",
        || format!("{short:?}"),
    )
}
