//! The keys and scalars of generated texts.

/// Keys as written and as paths spell them.
pub(super) const KEYS: [(&str, &str); 12] = [
    ("name", "name"),
    ("replicas", "replicas"),
    ("image", "image"),
    ("a.b/c", "[\"a.b/c\"]"),
    ("\"quoted key\"", "[\"quoted key\"]"),
    ("'single'", "single"),
    ("x-y_z", "x-y_z"),
    ("größe", "größe"),
    ("80", "80"),
    ("on", "on"),
    ("labels", "labels"),
    ("spec", "spec"),
];

/// Scalars as they are written; a line break in them is indented.
pub(super) const SCALARS: [&str; 22] = [
    "",
    "~",
    "null",
    "1",
    "-7",
    "0x1F",
    "1.5",
    "true",
    "web",
    "several words",
    "v1.2.3",
    "10Gi",
    "'single'",
    "'it''s'",
    "\"double\"",
    "\"esc\\n\\\"aped # no comment\"",
    "http://host:80/a#b",
    "ünï ☃",
    "\"\"",
    "first\nsecond",
    "\"folded\n  text\"",
    "-x",
];

/// Scalars within brackets and braces.
pub(super) const FLOW_SCALARS: [&str; 8] = [
    "1", "web", "'a, b'", "\"x\"", "null", "10Gi", "a b", "\"]\"",
];

/// Lines of block scalars.
pub(super) const LINES: [&str; 7] = [
    "text",
    "  more",
    "# no comment",
    "",
    "key: value",
    "- item",
    "ünï",
];
