//! Planted faults of editors.

use plugin_sdk::document::FieldPath;
use prodspec_gen::{
    edit::{self, Edit, Refused},
    format::{Format, Limits, Yaml},
};

use super::broken;
use crate::targets::{
    edits::{Apply, Editor},
    near::{Change, Place, Places},
};

fn law_of(apply: Apply) -> &'static str {
    let seeds = || {
        vec![
            b"# first\na: 1 # one\nb: 2\nlist:\n- x\n- y\n".to_vec(),
            b"a: 1\r\nb: 2\r\n".to_vec(),
        ]
    };
    broken(&Editor::new("faulty", Yaml::parse, apply, seeds, &[], true)).0
}

fn also(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
    Ok(edit::yaml(text, edits, limits)?.replacen("b: 2", "b: 3", 1))
}

fn comment(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
    Ok(edit::yaml(text, edits, limits)?.replacen("# first\n", "#\n", 1))
}

fn blank(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
    let edited = edit::yaml(text, edits, limits)?;
    Ok(if edits[0].was == edits[0].to {
        edited + "\n"
    } else {
        edited
    })
}

fn unix(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
    let edited = edit::yaml(text, edits, limits)?;
    let is_last = edits[0].path.to_string() == "b" && edits[0].was != edits[0].to;
    Ok(match edited.strip_suffix("\r\n") {
        Some(rest) if is_last && text.starts_with("a: 1\r\n") => format!("{rest}\n"),
        _ => edited,
    })
}

fn lost(_: &str, _: &[Edit], _: &Limits) -> Result<String, Refused> {
    Err(Refused::NoDocument {
        document: 0,
        count: 0,
    })
}

#[test]
fn editor_that_breaks_a_law_is_found() {
    assert_eq!(law_of(also), "an edit changes its field only");
    assert_eq!(
        law_of(comment),
        "an edit changes the text near its field only"
    );
    assert_eq!(law_of(blank), "an edit to the same value changes no byte");
    assert_eq!(law_of(unix), "an edit keeps the line ends of Windows");
    assert_eq!(
        law_of(lost),
        "a field of the parsed text is found with its value"
    );
}

#[test]
fn place_of_a_field_ends_where_the_next_value_begins() {
    let text = "a: 1\n\nb:\n  c: 2\n  # about d\n  d: 3\ne: 4\n";
    let places = Places::of(&Yaml::parse(text, &Limits::default()).unwrap());
    let place = |path: &str, change| places.place(0, &path.parse::<FieldPath>().unwrap(), change);
    let lines = |first, last| Some(Place { first, last });
    assert_eq!(place("b.c", Change::Replaced), lines(4, 6));
    assert_eq!(place("b.d", Change::Removed), lines(4, 7));
    assert_eq!(place("b.new", Change::Added), lines(3, 7));
    assert_eq!(place("e", Change::Replaced), lines(7, u32::MAX));
    let holds = |after: &str| lines(4, 6).is_some_and(|place: Place| place.holds(text, after));
    assert!(holds(&text.replace("c: 2", "c:\n  - 2")));
    assert!(!holds(&text.replace("e: 4", "e: 5")));
    assert!(!holds(&text.replace("a: 1", "a:  1")));
}
