//! The targets: each parser, editor and decoder of the product that takes texts or bytes from outside.

pub(crate) mod assets;
pub(crate) mod calendars;
pub(crate) mod edits;
mod manifests;
pub(crate) mod names;
pub(crate) mod near;
mod oci;
pub(crate) mod parsers;
mod parts;
pub(crate) mod records;
pub(crate) mod rows;
pub(crate) mod snapshots;
pub(crate) mod tars;
mod values;

use plugins_kubernetes::KubernetesYaml;
use prodspec_gen::{
    edit,
    format::{Format, Json, Limits, Toml, Yaml},
};
use prodspec_model::Snapshot;

use crate::{seeds, target::Target};

/// Limits of all texts, small enough to be reached.
pub(crate) const LIMITS: Limits = Limits {
    bytes: 64 << 10,
    depth: 64,
    expansion: 1 << 20,
    rendered: false,
};

/// Words of YAML that mutations put in.
const YAML: &[&str] = &[
    "&a ",
    "*a",
    "<<: *a",
    "<<: [*a, *b]",
    "? ",
    "key: ",
    "- - ",
    "|2\n",
    ">+\n",
    "!!binary ",
    "!local ",
    "%TAG ! !\n",
    "--- ",
    "... ",
    "yes",
    "{a: b}",
    "[a, b]",
    "# comment\n",
    "\"\\x41\"",
    "{{ .Values.x }}",
    "a: &a\n  b: 1\n",
];
/// Words of JSON.
const JSON: &[&str] = &[
    "{\"a\":1}",
    "[[]]",
    "\"\\ud83d\\ude00\"",
    "1E+2",
    "-0.0",
    "\"a\": ",
    "//",
    "{}",
    "NaN",
];
/// Words of TOML.
const TOML: &[&str] = &[
    "[a]\n",
    "[[a]]\n",
    "[a.b.c]\n",
    "a.b = 1\n",
    "\"\"\"",
    "'''",
    "{ a = 1 }",
    "inf",
    "nan",
    "0b1",
    "1979-05-27T07:32:00Z",
    "# comment\n",
    "\"a\" = ",
];
/// Words of manifests.
const MANIFESTS: &[&str] = &[
    "kind: List\n",
    "items: []\n",
    "apiVersion: v1\n",
    "metadata: {name: a}\n",
    "generateName: a\n",
    "namespace: b\n",
    "---\n",
    "type: object",
    "x-kubernetes-preserve-unknown-fields: true",
    "pattern: '(a{1000}){1000}'",
    "anyOf: [{}]",
    "0644",
];

/// A target by its name.
pub(crate) type Named = (&'static str, fn() -> Box<dyn Target>);

/// All targets, in the order in which they run.
pub(crate) const ALL: [Named; 16] = [
    ("yaml", || {
        Box::new(parsers::Parser::<Yaml>::new(
            "yaml",
            seeds::yaml,
            YAML,
            &[parsers::as_json],
        ))
    }),
    ("json", || {
        let laws = &[
            parsers::as_json as parsers::Law,
            parsers::as_reference,
            parsers::as_yaml,
        ];
        Box::new(parsers::Parser::<Json>::new(
            "json",
            seeds::json,
            JSON,
            laws,
        ))
    }),
    ("toml", || {
        Box::new(parsers::Parser::<Toml>::new(
            "toml",
            seeds::toml,
            TOML,
            &[parsers::as_json],
        ))
    }),
    ("kubernetes", || {
        let laws = &[parsers::as_json as parsers::Law, parsers::as_objects];
        Box::new(parsers::Parser::<KubernetesYaml>::new(
            "kubernetes",
            seeds::kubernetes,
            MANIFESTS,
            laws,
        ))
    }),
    ("custom-resources", || Box::new(manifests::CustomResource)),
    ("yaml-edit", || {
        Box::new(edits::Editor::new(
            "yaml-edit",
            Yaml::parse,
            edit::yaml,
            seeds::yaml,
            YAML,
            true,
        ))
    }),
    ("json-edit", || {
        Box::new(edits::Editor::new(
            "json-edit",
            Json::parse,
            edit::json,
            seeds::json,
            JSON,
            true,
        ))
    }),
    ("toml-edit", || {
        Box::new(edits::Editor::new(
            "toml-edit",
            Toml::parse,
            edit::toml,
            seeds::toml,
            TOML,
            false,
        ))
    }),
    ("names", || Box::new(names::Names)),
    ("records", || Box::new(records::Records)),
    ("assets", || Box::new(assets::Assets(assets::Parts::build))),
    ("snapshots", || {
        Box::new(snapshots::Snapshots(|root, packs| {
            Snapshot::load(root, packs)
        }))
    }),
    ("rows", || Box::new(rows::Rows::new())),
    ("tar", || Box::new(tars::Tars::new())),
    ("oci", || Box::new(oci::Layouts::new())),
    ("calendar", || Box::new(calendars::Calendars)),
];
