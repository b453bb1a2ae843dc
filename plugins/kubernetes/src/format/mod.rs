//! The format of manifests: YAML or JSON as `kubectl` reads it.

mod json;
mod list;
mod scalar;
mod stream;

use plugin_sdk::{
    Document, Problem, Problems,
    document::{Node, Value},
};
use prodspec_gen::{
    edit::{self, Edit, EditFormat, Refused},
    format::{Format, Limits, parse_dialect},
};

use self::scalar::Kubectl;
use crate::object::Object;

/// The format of Kubernetes manifests, for any source that takes a [`Format`]. Each object is a document, known by
/// its kind, API group, namespace and name; see [`Object::name`].
///
/// A text that begins with `{` is JSON, with any number of objects. Any other is a stream of YAML documents between lines
/// `---`. Lists are unpacked. Values are those that `kubectl` sends to the server, or the text is refused:
///
/// - `yes`, `on`, `y` and their opposites are booleans, `0644` is octal, `1_000` a number, `12:30:45` and dates are texts.
/// - Merge keys are merged; keys that are numbers or booleans are their JSON texts, so `on:` is the key `true`.
/// - Refused are duplicate keys, integers beyond 64 bits, `.nan`, foreign tags, directives, and text that `kubectl` would
///   ignore without a word, such as a second document after `...`.
///
/// ```
/// use plugin_sdk::document::{FieldPath, Value};
/// use plugins_kubernetes::KubernetesYaml;
/// use prodspec_gen::format::{Format, Limits};
///
/// let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndefaultMode: 0644\n";
/// let objects = KubernetesYaml::parse(text, &Limits::default())?;
/// let mode: FieldPath = "defaultMode".parse()?;
/// assert_eq!(objects[0].at(&mode).unwrap().value, Value::Int(420));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct KubernetesYaml;

impl Format for KubernetesYaml {
    const NAME: &'static str = "Kubernetes";
    const EXTENSIONS: &'static [&'static str] = &["yaml", "yml", "json"];
    const END: Option<&'static str> = Some("...");

    fn parse(text: &str, limits: &Limits) -> Result<Vec<Node>, Problem> {
        let roots = match text.trim_start().starts_with('{') {
            true => json::parse(text, limits)?,
            false => yaml(text, limits)?,
        };
        let mut objects = Vec::new();
        for root in roots {
            objects.extend(list::unpack(root)?);
        }
        Ok(objects)
    }

    fn named(document: Document, limits: &Limits) -> Result<Document, Problems> {
        let object = Object::of(&document)?;
        if !limits.rendered {
            object.check_rendered(&document)?;
        }
        let name = object.name();
        Ok(document.known_as(name))
    }
}

impl EditFormat for KubernetesYaml {
    fn edit(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
        match text.trim_start().starts_with('{') {
            true => edit::json(text, edits, limits),
            false => edit::yaml(text, edits, limits),
        }
    }
}

fn yaml(text: &str, limits: &Limits) -> Result<Vec<Node>, Problem> {
    let mut roots = Vec::new();
    for stream::Part { lines, text } in stream::split(text)? {
        let parsed = parse_dialect(&text, limits, &Kubectl);
        let mut parsed = parsed.map_err(|mut problem| {
            problem.line += lines;
            problem
        })?;
        parsed.iter_mut().for_each(|root| shift(root, lines, 0));
        roots.extend(parsed);
    }
    Ok(roots)
}

/// Moves the positions of a tree that was parsed from a part of a text: down by `lines`, and those of its first line to
/// the right by `columns`.
fn shift(node: &mut Node, lines: u32, columns: u32) {
    let moved = |line: &mut u32, column: &mut u32| {
        *column += if *line == 1 { columns } else { 0 };
        *line += lines;
    };
    moved(&mut node.line, &mut node.column);
    match &mut node.value {
        Value::Sequence(items) => items
            .iter_mut()
            .for_each(|item| shift(item, lines, columns)),
        Value::Map(entries) => entries.iter_mut().for_each(|(name, value)| {
            moved(&mut name.line, &mut name.column);
            shift(value, lines, columns);
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
