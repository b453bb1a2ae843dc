//! Planted faults of parsers.

use std::sync::atomic::{AtomicU32, Ordering};

use plugin_sdk::{Document, Problem, document::Node};
use prodspec_gen::format::{Format, Json, Limits};
use serde_json::json;

use super::broken;
use crate::{
    seeds,
    target::Broken,
    targets::parsers::{Law, Parser, as_json, as_objects, as_reference, as_yaml},
};

/// A format of JSON whose parser has a fault.
macro_rules! faulty {
    ($name:ident, $text:ident, $limits:ident => $parse:expr) => {
        struct $name;

        impl Format for $name {
            const NAME: &'static str = "faulty";
            const EXTENSIONS: &'static [&'static str] = &["json"];
            const END: Option<&'static str> = None;

            fn parse($text: &str, $limits: &Limits) -> Result<Vec<Node>, Problem> {
                $parse
            }
        }
    };
}

faulty!(Forgetful, text, limits => {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let mut roots = Json::parse(text, limits)?;
    roots.iter_mut().for_each(|root| root.column = CALLS.fetch_add(1, Ordering::Relaxed));
    Ok(roots)
});
faulty!(Deep, text, limits => Json::parse(text, &Limits { depth: 100, ..*limits }));
faulty!(Expanding, text, limits => {
    let mut roots = Json::parse(text, limits)?;
    let many = vec![json!(1); 20_000];
    roots.extend((0..2).map(|_| at_line_1(many.clone().into())));
    Ok(roots)
});
faulty!(Lost, text, limits => {
    let mut roots = Json::parse(text, limits)?;
    roots.iter_mut().for_each(|root| root.line += 100_000);
    Ok(roots)
});
faulty!(Silent, text, limits => Json::parse(text, limits).map_err(|problem| Problem::new(problem.message)));
faulty!(Rounding, text, limits => {
    let mut roots = Json::parse(text, limits)?;
    if text.contains("0.25") {
        roots = vec![at_line_1(json!({"ratio": 0}))];
    }
    Ok(roots)
});

fn at_line_1(value: serde_json::Value) -> Node {
    let mut root = Node::from(value);
    lines(&mut root);
    root
}

fn lines(node: &mut Node) {
    use plugin_sdk::document::Value;
    node.line = 1;
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().for_each(lines),
        Value::Map(entries) => entries.iter_mut().for_each(|(name, value)| {
            name.line = 1;
            lines(value);
        }),
        _ => {}
    }
}

/// The law that a parser of JSON breaks.
fn law_of<F: Format>() -> &'static str {
    deep_law_of::<F>(seeds::json)
}

fn deep_law_of<F: Format>(seeds: fn() -> Vec<Vec<u8>>) -> &'static str {
    broken(&Parser::<F>::new("faulty", seeds, &[], &[as_reference])).0
}

#[test]
fn parser_that_breaks_a_law_is_found() {
    assert_eq!(
        law_of::<Forgetful>(),
        "a text that is parsed again gives the same"
    );
    assert_eq!(
        law_of::<Expanding>(),
        "aliases expand to no more than the limit"
    );
    assert_eq!(law_of::<Lost>(), "values have lines of the text");
    assert_eq!(
        law_of::<Silent>(),
        "a refusal has a message and a line of the text"
    );
    assert_eq!(
        law_of::<Rounding>(),
        "values of JSON are those of the reference reader"
    );
    let nested = || vec![[b"[".repeat(70), b"]".repeat(70)].concat()];
    assert_eq!(
        deep_law_of::<Deep>(nested),
        "an accepted text is not nested deeper than the limit"
    );
}

fn check(
    law: Law,
    text: &str,
    roots: &[serde_json::Value],
    name: &str,
) -> Result<(), &'static str> {
    let document = |(nth, root): (u32, &serde_json::Value)| {
        Document::new("x", "x", nth, Node::from(root.clone())).known_as(name)
    };
    let documents: Vec<Document> = (0..).zip(roots).map(document).collect();
    law(text, &documents).map_err(|Broken { law, .. }| law)
}

#[test]
fn values_that_break_a_law_of_their_format_are_found() {
    let (one, two) = (json!({"a": 1}), json!({"a": 2}));
    assert_eq!(
        check(as_yaml, "{\"a\": 1}", std::slice::from_ref(&one), ""),
        Ok(())
    );
    assert!(check(as_yaml, "{\"a\": 1}", std::slice::from_ref(&two), "").is_err());
    assert!(check(as_reference, "{\"a\": 1}", &[], "").is_err());
    assert!(check(as_objects, "", &[one.clone(), two], "ConfigMap/a").is_err());
    assert!(check(as_objects, "", std::slice::from_ref(&one), "ConfigMap//a").is_err());
    let mut wrong = Node::from(one);
    wrong.value = plugin_sdk::document::Value::Float(f64::NAN);
    assert!(as_json("", &[Document::new("x", "x", 0, wrong)]).is_err());
}
