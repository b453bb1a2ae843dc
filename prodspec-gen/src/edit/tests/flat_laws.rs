//! Laws of JSON and TOML edits.

use proptest::{collection::vec, prelude::*};

use super::{
    super::{
        json as edit_json, json_tree, toml as edit_toml, toml_tree, ways::Syntax, write::Dialect,
    },
    Function,
    generator::{Field, Written},
    law::{Deed, check, deed, to_edit},
};
use crate::format::{Format, Json, Limits, Toml};

const JSON: Syntax = Syntax {
    read: json_tree::read,
    dialect: Dialect::Json,
};
const TOML: Syntax = Syntax {
    read: toml_tree::read,
    dialect: Dialect::Toml,
};

#[derive(Debug, Clone)]
enum Item {
    Scalar(&'static str),
    Map(Vec<Item>),
    List(Vec<Item>),
}

fn item(scalars: &'static [&'static str]) -> impl Strategy<Value = Item> {
    let scalar = prop::sample::select(scalars).prop_map(Item::Scalar);
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Item::Map),
            vec(inner, 0..4).prop_map(Item::List),
        ]
    })
}

/// Writes values within brackets.
#[derive(Default)]
struct Writer {
    text: String,
    fields: Vec<Field>,
    /// White space within brackets and after commas.
    space: &'static str,
    toml: bool,
    comments: usize,
}

impl Writer {
    fn line(&self) -> usize {
        self.text.matches('\n').count()
    }

    fn end_line(&mut self, comment: bool) {
        if comment {
            self.comments += 1;
            self.text.push_str(&format!(" # c{}.", self.comments));
        }
        self.text.push('\n');
    }

    fn field(&mut self, path: &str, start: usize, from: Option<usize>, map: Option<bool>) {
        self.fields.push(Field {
            document: 0,
            path: path.into(),
            lines: start..self.line() + 1,
            bytes: from.map(|from| from..self.text.len()),
            map,
        });
    }

    fn item(&mut self, item: &Item, path: &str) -> Option<bool> {
        let (open, close, items, map) = match item {
            Item::Scalar(text) => {
                self.text.push_str(text);
                return None;
            }
            Item::Map(items) => ('{', '}', items, true),
            Item::List(items) => ('[', ']', items, false),
        };
        self.text.push(open);
        for (nth, item) in items.iter().enumerate() {
            if nth > 0 {
                self.text.push(',');
            }
            self.text.push_str(self.space);
            let start = self.line();
            let inner = match map {
                true => format!("{path}.k{nth}"),
                false => format!("{path}[{nth}]"),
            };
            if map {
                let key = format!("k{nth}");
                self.text.push_str(&if self.toml {
                    format!("{key} = ")
                } else {
                    format!("\"{key}\": ")
                });
            }
            let from = self.text.len();
            let map = self.item(item, &inner);
            self.field(&inner, start, Some(from), map);
        }
        if !items.is_empty() {
            self.text.push_str(self.space);
        }
        self.text.push(close);
        Some(map)
    }

    /// Writes a field of a table in a line of its own.
    fn entry(&mut self, key: &str, path: &str, item: &Item, comment: bool) {
        if comment {
            self.comments += 1;
            self.text.push_str(&format!("# c{}.\n", self.comments));
        }
        let start = self.line();
        self.text.push_str(&format!("{key} = "));
        let from = self.text.len();
        let map = self.item(item, path);
        self.field(path, start, Some(from), map);
        self.end_line(!comment);
    }
}

const IN_JSON: [&str; 7] = [
    "1",
    "-2.5",
    "\"x\"",
    "\"\\u00e9, ]}\"",
    "null",
    "true",
    "\"\"",
];
const IN_TOML: [&str; 8] = [
    "1",
    "-2.5",
    "\"x\"",
    "'lit # no comment'",
    "1979-05-27T07:32:00Z",
    "true",
    "\"\"\"\ntwo\nlines\"\"\"",
    "0xFF",
];

fn json_text() -> impl Strategy<Value = Written> {
    let space = prop::sample::select(vec!["", " ", "\n  ", "\r\n\t"]);
    (item(&IN_JSON), space).prop_map(|(item, space)| {
        let mut writer = Writer {
            space,
            ..Writer::default()
        };
        writer.text.push_str("{\"root\":");
        writer.text.push_str(space);
        let from = writer.text.len();
        let start = writer.line();
        let map = writer.item(&item, "root");
        writer.field("root", start, Some(from), map);
        writer.text.push_str(" }");
        writer.field("", 0, None, Some(true));
        Written {
            text: writer.text,
            fields: writer.fields,
            shared: false,
        }
    })
}

/// A table: its fields with their number of dots, and what its header is like.
type Section = (Vec<(Item, bool, bool)>, u8);

fn toml_text() -> impl Strategy<Value = Written> {
    let fields = vec((item(&IN_TOML), any::<bool>(), any::<bool>()), 0..4);
    let sections = vec((fields, 0_u8..4), 1..5);
    (sections, any::<bool>(), any::<bool>()).prop_map(|(sections, crlf, end)| {
        let mut writer = Writer {
            space: "",
            toml: true,
            ..Writer::default()
        };
        sections_text(&mut writer, &sections);
        if !end {
            writer.text.pop();
        }
        let breaks = |text: &str, at: usize| {
            at + if crlf {
                text[..at].matches('\n').count()
            } else {
                0
            }
        };
        for field in &mut writer.fields {
            let bytes = field.bytes.take();
            field.bytes =
                bytes.map(|it| breaks(&writer.text, it.start)..breaks(&writer.text, it.end));
        }
        Written {
            text: if crlf {
                writer.text.replace('\n', "\r\n")
            } else {
                writer.text
            },
            fields: writer.fields,
            shared: false,
        }
    })
}

fn sections_text(writer: &mut Writer, sections: &[Section]) {
    let mut tables = 0;
    for (nth, (fields, kind)) in sections.iter().enumerate() {
        let start = writer.line();
        let path = match (nth, kind) {
            (0, _) => String::new(),
            (_, 0) => {
                writer.text.push_str("[[list]]");
                tables += 1;
                format!("list[{}].", tables - 1)
            }
            (_, 1) => {
                writer.text.push_str(&format!("[s{nth}.inner]"));
                format!("s{nth}.inner.")
            }
            _ => {
                writer.text.push_str(&format!("[s{nth}]"));
                format!("s{nth}.")
            }
        };
        if nth > 0 {
            writer.end_line(nth % 2 == 0);
        }
        for (at, (item, dotted, comment)) in fields.iter().enumerate() {
            let key = if *dotted {
                format!("d.f{at}")
            } else {
                format!("f{at}")
            };
            writer.entry(&key, &format!("{path}{key}"), item, *comment);
        }
        let lines = start..writer.line();
        writer.fields.push(Field {
            document: 0,
            path: path.trim_end_matches('.').into(),
            lines: if nth == 0 { 0..usize::MAX } else { lines },
            bytes: None,
            map: Some(true),
        });
        writer.end_line(false);
    }
}

fn cases(
    text: impl Strategy<Value = Written>,
) -> impl Strategy<Value = (Written, prop::sample::Index, Deed)> {
    (text, any::<prop::sample::Index>(), deed())
}

/// Makes one edit and checks it. Returns whether it was made.
fn law<F: Format>(
    edit: Function,
    syntax: Syntax,
    (written, field, deed): &(Written, prop::sample::Index, Deed),
) -> Result<Option<bool>, TestCaseError> {
    let field = &written.fields[field.index(written.fields.len())];
    if (syntax.read)(&written.text, &Limits::default()).is_ok_and(|it| it.documents.is_empty()) {
        return Ok(None);
    }
    let Some(one) = to_edit(syntax, &written.text, field, deed) else {
        return Ok(None);
    };
    match edit(
        &written.text,
        std::slice::from_ref(&one),
        &Limits::default(),
    ) {
        Ok(new) => check::<F>(written, field, deed, &one, &new).map(|()| Some(true)),
        Err(_) => Ok(Some(false)),
    }
}

proptest! {
    #[test]
    fn r48_json_edit_keeps_every_other_byte(case in cases(json_text())) {
        let made = law::<Json>(edit_json, JSON, &case)?;
        let root = matches!(case.2, Deed::Remove | Deed::Replace(_));
        prop_assert!(made != Some(false) || root && case.0.fields.last().is_some(), "refused");
    }

    #[test]
    fn r48_toml_edit_keeps_every_other_byte(case in cases(toml_text())) {
        law::<Toml>(edit_toml, TOML, &case)?;
    }

    #[test]
    fn r48_no_json_or_toml_makes_an_edit_panic(
        text in prop_oneof![
            "(a|b|=| |\n|\\.|\\[|\\]|\\{|\\}|,|\"|'|1|#x|\r\n|\\[\\[a\\]\\]\n|\\[a\\]\n|a = 1\n|\"a\":){0,20}",
            any::<String>(),
        ],
        path in prop::sample::select(vec!["a", "b", "a.b", "[0]", "a[0]", "a[1]"]),
        to in super::law::json(),
    ) {
        for (edit, syntax) in [(edit_json as Function, JSON), (edit_toml as Function, TOML)] {
            let path: super::FieldPath = path.parse().unwrap();
            let read = (syntax.read)(&text, &Limits::default()).is_ok();
            let was = read.then(|| super::law::value(syntax, &text, 0, &path)).flatten();
            let one = super::Edit { document: 0, path, was, to: Some(to.clone()) };
            let _ = edit(&text, &[one], &Limits::default());
        }
    }
}

/// The share of edits that are refused.
fn refused<F: Format>(
    edit: Function,
    syntax: Syntax,
    text: impl Strategy<Value = Written>,
) -> (usize, usize) {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let (mut runner, cases) = (TestRunner::deterministic(), cases(text));
    let (mut made, mut refused) = (0, 0);
    for _ in 0..1_000 {
        let case = cases.new_tree(&mut runner).unwrap().current();
        match law::<F>(edit, syntax, &case).unwrap() {
            Some(true) => made += 1,
            Some(false) => refused += 1,
            None => {}
        }
    }
    (made, refused)
}

#[test]
fn r48_few_json_and_toml_edits_are_refused() {
    let (made, refused_json) = refused::<Json>(edit_json, JSON, json_text());
    assert!(
        made > 300 && refused_json * 5 < made,
        "JSON: {made} made, {refused_json} refused"
    );
    // TOML has no null, and tables are not replaced by values.
    let (made, refused_toml) = refused::<Toml>(edit_toml, TOML, toml_text());
    assert!(
        made > 300 && refused_toml * 2 < made,
        "TOML: {made} made, {refused_toml} refused"
    );
}
