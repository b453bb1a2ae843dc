//! Lists: an object whose kind ends with `List` and that has `items` stands for its items.

use plugin_sdk::{
    Problem,
    document::{Name, Node, Value},
};

/// The objects of a document: its items if it is a list, or else itself.
///
/// # Errors
/// When the document is neither an object nor a list of objects.
pub(super) fn unpack(root: Node) -> Result<Vec<Node>, Problem> {
    let Some(items) = field(&root, "items") else {
        return match root.value {
            Value::Map(_) => Ok(vec![root]),
            _ => Err(wrong(
                "a Kubernetes object must be a map; `kind: List` holds several",
                &root,
            )),
        };
    };
    let [kind, api_version] = ["kind", "apiVersion"].map(|name| text(&root, name));
    let Some(of) = kind.as_deref().and_then(|kind| kind.strip_suffix("List")) else {
        let message = "kubectl reads an object with `items` as a list and drops the rest; a list has a kind that ends with `List`";
        return Err(wrong(message, items));
    };
    let inferred = [
        ("kind", Some(of.to_owned()).filter(|of| !of.is_empty())),
        ("apiVersion", api_version),
    ];
    let (line, column) = (items.line, items.column);
    let Value::Map(entries) = root.value else {
        return Ok(Vec::new());
    };
    let items = entries.into_iter().find(|(name, _)| &*name.text == "items");
    match items.map(|(_, items)| items.value) {
        Some(Value::Sequence(items)) => items
            .into_iter()
            .map(|item| of_list(item, &inferred))
            .collect(),
        Some(Value::Null) => Ok(Vec::new()),
        _ => Err(Problem::new("must be a list of objects").at("", line, column)),
    }
}

/// One item of a list, with the kind and version that the list implies if it has neither.
fn of_list(mut item: Node, inferred: &[(&str, Option<String>)]) -> Result<Node, Problem> {
    if let Some(items) = field(&item, "items") {
        return Err(wrong(
            "kubectl does not read a list in a list; put its items into the outer list",
            items,
        ));
    }
    let (line, column) = (item.line, item.column);
    let untyped = ["kind", "apiVersion"]
        .iter()
        .all(|name| text(&item, name).is_none_or(|text| text.is_empty()));
    let Value::Map(entries) = &mut item.value else {
        return Err(wrong("an item of a list must be an object", &item));
    };
    for (name, value) in inferred.iter().filter(|_| untyped) {
        let Some(value) = value else { continue };
        let value = Node {
            line,
            column,
            value: Value::String(value.as_str().into()),
        };
        entries.retain(|(key, _)| &*key.text != *name);
        entries.push((
            Name {
                line,
                column,
                text: (*name).into(),
            },
            value,
        ));
    }
    Ok(item)
}

fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let Value::Map(entries) = &node.value else {
        return None;
    };
    let found = entries.iter().find(|(key, _)| &*key.text == name);
    found.map(|(_, value)| value)
}

fn text(node: &Node, name: &str) -> Option<String> {
    match &field(node, name)?.value {
        Value::String(text) => Some(text.to_string()),
        _ => None,
    }
}

fn wrong(message: &str, node: &Node) -> Problem {
    Problem::new(message).at("", node.line, node.column)
}
