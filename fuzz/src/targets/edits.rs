//! Editors of texts: edits drawn from the fields of the parsed text change that field only, near its place.

use plugin_sdk::{
    Problem,
    document::{FieldPath, Name, Node, Step, Value},
};
use prodspec_gen::{
    edit::{Edit, Refused},
    format::Limits,
};
use serde_json::{Value as JsonValue, json};

use super::{
    LIMITS,
    near::{Change, Places},
    values::Shape,
};
use crate::{
    random::Random,
    target::{Broken, Class, Effort, Target, law},
};

/// The parser of a format.
pub(crate) type Parse = fn(&str, &Limits) -> Result<Vec<Node>, Problem>;
/// The editor of a format.
pub(crate) type Apply = fn(&str, &[Edit], &Limits) -> Result<String, Refused>;

/// The editor of one format.
pub(crate) struct Editor {
    name: &'static str,
    parse: Parse,
    apply: Apply,
    seeds: fn() -> Vec<Vec<u8>>,
    words: &'static [&'static str],
    /// Whether the order of entries counts.
    ordered: bool,
}

impl Editor {
    /// An editor with its parser.
    pub(crate) fn new(
        name: &'static str,
        parse: Parse,
        apply: Apply,
        seeds: fn() -> Vec<Vec<u8>>,
        words: &'static [&'static str],
        ordered: bool,
    ) -> Self {
        Self {
            name,
            parse,
            apply,
            seeds,
            words,
            ordered,
        }
    }

    /// Draws one edit, makes it, and checks it.
    fn draw(
        &self,
        text: &str,
        before: &[Node],
        random: &mut Random,
    ) -> Result<Option<Class>, Broken> {
        let Some(edit) = drawn(before, random) else {
            return Ok(None);
        };
        let edited = (self.apply)(text, std::slice::from_ref(&edit), &LIMITS);
        let class = match &edited {
            Ok(after) => {
                self.made(text, before, &edit, after)?;
                Class::accepted(&[
                    usize::from(edit.was.is_some()),
                    usize::from(edit.to.is_some()),
                ])
            }
            Err(refused) => {
                let known = !matches!(
                    refused,
                    Refused::Unexpected { .. }
                        | Refused::NoField { .. }
                        | Refused::NoDocument { .. }
                );
                law(
                    known,
                    "a field of the parsed text is found with its value",
                    || shown(&edit, &refused.to_string()),
                )?;
                Class::refused(&refused.to_string())
            }
        };
        Ok(Some(class))
    }

    /// Checks an edit that was made.
    fn made(&self, text: &str, before: &[Node], edit: &Edit, after: &str) -> Result<(), Broken> {
        let parsed = (self.parse)(after, &LIMITS);
        let mut expected = before.to_vec();
        let nothing = edit.was == edit.to;
        let root = expected.get_mut(edit.document as usize);
        let done = root.and_then(|root| if nothing { Some(()) } else { apply(root, edit) });
        let same = done.is_some()
            && parsed
                .as_ref()
                .is_ok_and(|parsed| self.equal(edit, &expected, parsed));
        law(same, "an edit changes its field only", || {
            shown(edit, &format!("{after}\nparsed {parsed:?}"))
        })?;
        law(
            !nothing || text == after,
            "an edit to the same value changes no byte",
            || shown(edit, after),
        )?;
        let place = Places::of(before).place(edit.document as usize, &edit.path, Change::of(edit));
        let near = place.is_none_or(|place| place.holds(text, after));
        law(near, "an edit changes the text near its field only", || {
            shown(edit, after)
        })?;
        let is_windows = |text: &str| text.matches('\n').count() == text.matches("\r\n").count();
        let kept = !text.contains("\r\n") || !is_windows(text) || is_windows(after);
        law(kept, "an edit keeps the line ends of Windows", || {
            shown(edit, after)
        })
    }

    /// Whether the values are equal, and the order of entries outside of the edited field, which has one of its own.
    fn equal(&self, edit: &Edit, expected: &[Node], parsed: &[Node]) -> bool {
        let values = |roots: &[Node]| roots.iter().map(Node::to_json).collect::<Vec<_>>();
        let others = |roots: &[Node]| {
            let mut roots = roots.to_vec();
            let root = roots.get_mut(edit.document as usize);
            if let Some(field) = root.and_then(|root| find(root, edit.path.steps())) {
                field.value = Value::Null;
            }
            roots
        };
        values(expected) == values(parsed) && (!self.ordered || others(expected) == others(parsed))
    }
}

impl Target for Editor {
    fn name(&self) -> &'static str {
        self.name
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }

    fn words(&self) -> &'static [&'static str] {
        self.words
    }

    fn run(&self, input: &[u8], effort: Effort) -> Result<Class, Broken> {
        let Ok(text) = std::str::from_utf8(input) else {
            return Ok(Class::refused("not UTF-8"));
        };
        let before = match (self.parse)(text, &LIMITS) {
            Ok(before) => before,
            Err(problem) => return Ok(Class::refused(&problem.message)),
        };
        let (mut random, draws) = match effort {
            Effort::Quick => (Random::of(input), 6),
            Effort::Thorough => (Random::new(0), 1_000),
        };
        let mut class = Class::accepted(&Shape::of(&before).numbers());
        for nth in 0..draws {
            let found = self.draw(text, &before, &mut random)?;
            class = found
                .filter(|_| nth == 0)
                .map_or(class, |found| class.and(found));
        }
        Ok(class)
    }
}

fn shown(edit: &Edit, details: &str) -> String {
    let edit = format!("{edit:?}");
    format!("{edit}\n{details}")
}

/// Draws an edit of any field: another value, its removal, or a new field beside it.
fn drawn(before: &[Node], random: &mut Random) -> Option<Edit> {
    let document = random.below(before.len());
    let root = before.get(document)?;
    let mut fields = Vec::new();
    collect(root, &FieldPath::default(), &mut fields);
    let (path, node) = random.pick(&fields)?.clone();
    let value = value(random);
    let (path, was, to) = match (random.below(4), &node.value) {
        (0, _) if path != FieldPath::default() => (path, Some(node.to_json()), None),
        (1, Value::Map(_)) => (path.key(key(random)), None, Some(value)),
        (1, Value::Sequence(items)) => (path.index(items.len()), None, Some(value)),
        (2, _) if random.below(8) == 0 => (path, Some(node.to_json()), Some(node.to_json())),
        _ => (path, Some(node.to_json()), Some(value)),
    };
    // A key that is drawn for a new field can be there already.
    let was = was.or_else(|| root.at(&path).map(Node::to_json));
    let document = u32::try_from(document).ok()?;
    Some(Edit {
        document,
        path,
        was,
        to,
    })
}

fn collect<'n>(node: &'n Node, path: &FieldPath, fields: &mut Vec<(FieldPath, &'n Node)>) {
    fields.push((path.clone(), node));
    match &node.value {
        Value::Map(entries) => entries
            .iter()
            .for_each(|(name, value)| collect(value, &path.clone().key(name.text.clone()), fields)),
        Value::Sequence(items) => (0..)
            .zip(items)
            .for_each(|(nth, item)| collect(item, &path.clone().index(nth), fields)),
        _ => {}
    }
}

fn key(random: &mut Random) -> &'static str {
    const KEYS: [&str; 16] = [
        "new",
        "a.b",
        "",
        "on",
        "80",
        "~",
        "a: b",
        "# x",
        "- k",
        "größe",
        "two words",
        "line\nbreak",
        "<<",
        "'",
        "\"",
        "{}",
    ];
    KEYS[random.below(KEYS.len())]
}

fn value(random: &mut Random) -> JsonValue {
    const TEXTS: [&str; 24] = [
        "plain",
        "",
        "yes",
        "null",
        "~",
        "0644",
        "1e3",
        ".5",
        "a: b",
        "a #b",
        "# x",
        " x ",
        "line\nbreak\n",
        "\n\n",
        "a\r\nb",
        "tab\t",
        "é☃\u{1f600}",
        "- x",
        "&a",
        "*a",
        "'",
        "\"\\",
        "\u{0}\u{7f}\u{85}\u{2028}\u{feff}",
        "---",
    ];
    match random.below(12) {
        0 => JsonValue::Null,
        1 => json!(random.below(2) == 0),
        2 => json!([0, -1, 7, i64::MIN, i64::MAX][random.below(5)]),
        3 => json!(u64::MAX),
        4 => json!([1.5, -0.25, 1e300, 5e-324][random.below(4)]),
        5 => json!({}),
        6 => json!([]),
        7 => json!([1, TEXTS[random.below(TEXTS.len())]]),
        8 => json!({ key(random): TEXTS[random.below(TEXTS.len())], "list": [{"a": null}, [[]]] }),
        _ => json!(TEXTS[random.below(TEXTS.len())]),
    }
}

/// The value at the end of some steps.
fn find<'n>(root: &'n mut Node, steps: &[Step]) -> Option<&'n mut Node> {
    steps
        .iter()
        .try_fold(root, |node, step| match (step, &mut node.value) {
            (Step::Key(key), Value::Map(entries)) => {
                let entry = entries.iter_mut().find(|(name, _)| name.text == *key);
                entry.map(|(_, value)| value)
            }
            (Step::Index(index), Value::Sequence(items)) => items.get_mut(*index),
            _ => None,
        })
}

/// Makes an edit of a tree. `None`: it cannot be made.
fn apply(root: &mut Node, edit: &Edit) -> Option<()> {
    let Some((parent, last)) = edit.path.split_last() else {
        root.value = Node::from(edit.to.clone()?).value;
        return Some(());
    };
    let parent = find(root, parent.steps())?;
    let to = edit.to.clone().map(Node::from);
    match (last, &mut parent.value) {
        (Step::Key(key), Value::Map(entries)) => {
            let at = entries.iter().position(|(name, _)| name.text == *key);
            match (at, to) {
                (Some(at), Some(to)) => entries[at].1 = to,
                (Some(at), None) => drop(entries.remove(at)),
                (None, Some(to)) => entries.push((
                    Name {
                        line: 0,
                        column: 0,
                        text: key.clone(),
                    },
                    to,
                )),
                (None, None) => return None,
            }
        }
        (Step::Index(index), Value::Sequence(items)) => match (items.get_mut(*index), to) {
            (Some(item), Some(to)) => *item = to,
            (Some(_), None) => drop(items.remove(*index)),
            (None, Some(to)) => items.push(to),
            (None, None) => return None,
        },
        _ => return None,
    }
    Some(())
}
