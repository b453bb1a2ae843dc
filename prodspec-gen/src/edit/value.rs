//! Edits of values without a text: rows of tables, and what the edit of a text has to lead to.

use plugin_sdk::{
    FieldEdit,
    document::{FieldPath, Step},
};
use serde_json::Value;

/// Why an edit of a value is refused.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Misfit {
    #[error("`{0}` and `{1}` are edited together, but overlap; keep one of the edits")]
    Overlap(FieldPath, FieldPath),
    #[error(
        "there is no field `{0}`, and nothing in which it could be added; correct the path, or add the value that contains it first"
    )]
    NoField(FieldPath),
    #[error(
        "`{0}` would not name the item any more after this edit; keep the field that names it, or name the item by another field"
    )]
    Renames(FieldPath),
    #[error(
        "`{path}` is {found}, but {expected} was expected; read the source again and decide anew"
    )]
    Unexpected {
        path: FieldPath,
        found: String,
        expected: String,
    },
}

/// A value with all `edits` made. `None` is a value that is not there, before or after. Indices of lists are those before
/// all edits.
///
/// # Errors
/// When two edits overlap, a field is not there, or it has not its expected value.
pub(crate) fn edited(value: Option<Value>, edits: &[&FieldEdit]) -> Result<Option<Value>, Misfit> {
    let mut rest = edits;
    while let Some((first, others)) = rest.split_first() {
        if let Some(second) = others.iter().find(|other| first.path.overlaps(&other.path)) {
            return Err(Misfit::Overlap(first.path.clone(), second.path.clone()));
        }
        rest = others;
    }
    let keeps_names = |edit: &&&FieldEdit| edit.path.keeps_names(edit.to.as_ref());
    if let Some(renames) = edits.iter().find(|edit| !keeps_names(edit)) {
        return Err(Misfit::Renames(renames.path.clone()));
    }
    for edit in edits {
        let found = value.as_ref().and_then(|value| at(value, &edit.path));
        if found != edit.was.as_ref() {
            return Err(Misfit::Unexpected {
                path: edit.path.clone(),
                found: shown(found),
                expected: shown(edit.was.as_ref()),
            });
        }
    }
    let mut ordered: Vec<&FieldEdit> = edits.to_vec();
    ordered.sort_by(|a, b| phase(a).cmp(&phase(b)).then_with(|| by_place(a, b)));
    let mut root = value;
    for edit in ordered {
        if edit.path.steps().is_empty() {
            root = edit.to.clone();
        } else {
            let made = root.as_mut().and_then(|root| make(root, edit));
            made.ok_or_else(|| Misfit::NoField(edit.path.clone()))?;
        }
    }
    Ok(root)
}

/// Replacements come first and removals last, so that indices stay valid.
fn phase(edit: &FieldEdit) -> u8 {
    match (&edit.was, &edit.to) {
        (Some(_), Some(_)) => 0,
        (None, _) => 1,
        (Some(_), None) => 2,
    }
}

/// Additions go from the front to the back, removals from the back to the front.
fn by_place(a: &FieldEdit, b: &FieldEdit) -> std::cmp::Ordering {
    match a.to {
        Some(_) => a.path.cmp(&b.path),
        None => b.path.cmp(&a.path),
    }
}

fn at<'v>(value: &'v Value, path: &FieldPath) -> Option<&'v Value> {
    let mut steps = path.steps().iter();
    steps.try_fold(value, |value, step| step.of(value))
}

/// Makes one edit, whose path is not empty. `None`: there is nothing that could have such an entry.
fn make(root: &mut Value, edit: &FieldEdit) -> Option<()> {
    let (parent, last) = edit.path.split_last()?;
    let mut steps = parent.steps().iter();
    let parent = steps.try_fold(root, |value, step| match (step, value) {
        (Step::Key(key), Value::Object(map)) => map.get_mut(&**key),
        (step, Value::Array(items)) => {
            let at = step.of_items(items)?;
            items.get_mut(at)
        }
        _ => None,
    })?;
    match (parent, last, edit.to.clone()) {
        (Value::Object(map), Step::Key(key), Some(to)) => {
            map.insert(key.to_string(), to);
        }
        (Value::Object(map), Step::Key(key), None) => {
            map.remove(&**key);
        }
        (Value::Array(items), step, to) if step.of_items(items).is_some() => {
            let at = step.of_items(items)?;
            match to {
                Some(to) => items[at] = to,
                None => drop(items.remove(at)),
            }
        }
        (Value::Array(items), step, Some(to))
            if step.adds_to(items.len(), &to) && !items.iter().any(|it| step.names(it)) =>
        {
            items.push(to);
        }
        // A field that is absent and stays so.
        (Value::Object(_) | Value::Array(_), _, None) if edit.was.is_none() => {}
        _ => return None,
    }
    Some(())
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".into(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> FieldPath {
        text.parse().unwrap()
    }

    #[test]
    fn r48_edits_of_a_value_are_made_together_by_the_indices_before() {
        let value = json!({"a": [1, 2, 3], "b": {"c": null}});
        let edits = [
            FieldEdit::remove("d", path("a[0]"), 1),
            FieldEdit::remove("d", path("a[2]"), 3),
            FieldEdit::set("d", path("a[1]"), 2, 7),
            FieldEdit::add("d", path("a[3]"), 4),
            FieldEdit::set("d", path("b.c"), Value::Null, true),
            FieldEdit::add("d", path("b.d"), "x"),
        ];
        let edits: Vec<&FieldEdit> = edits.iter().collect();
        let made = edited(Some(value), &edits).unwrap();
        assert_eq!(made, Some(json!({"a": [7, 4], "b": {"c": true, "d": "x"}})));
    }

    #[test]
    fn r48_edit_of_a_value_that_does_not_fit_is_refused() {
        let value = || Some(json!({"a": [1]}));
        let refused = |edits: &[FieldEdit]| {
            let edits: Vec<&FieldEdit> = edits.iter().collect();
            edited(value(), &edits).unwrap_err().to_string()
        };
        let wrong = refused(&[FieldEdit::set("d", path("a[0]"), 2, 3)]);
        assert_eq!(
            wrong,
            "`a[0]` is 1, but 2 was expected; read the source again and decide anew"
        );
        assert!(refused(&[FieldEdit::add("d", path("b.c"), 3)]).contains("no field `b.c`"));
        assert!(refused(&[FieldEdit::add("d", path("a[2]"), 3)]).contains("no field `a[2]`"));
        let both = [
            FieldEdit::set("d", path("a"), json!([1]), 3),
            FieldEdit::set("d", path("a[0]"), 1, 3),
        ];
        assert!(refused(&both).contains("overlap"));
    }

    #[test]
    fn r48_whole_value_is_added_and_removed() {
        let added = FieldEdit::add("d", path(""), json!({"a": 1}));
        assert_eq!(edited(None, &[&added]), Ok(Some(json!({"a": 1}))));
        let removed = FieldEdit::remove("d", path(""), json!({"a": 1}));
        assert_eq!(edited(Some(json!({"a": 1})), &[&removed]), Ok(None));
        assert!(edited(None, &[&removed]).is_err());
    }
}
