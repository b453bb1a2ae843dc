//! Which message the files of a source contain, and how one becomes the tree of a document.

use plugin_sdk::{
    Problem,
    document::{Node, Value},
};
use prodspec_model::protobuf::to_json;
use prost_reflect::{DynamicMessage, MessageDescriptor};

/// The message that the files of a source contain. A type without values, whose name is the parameter of a format.
///
/// ```
/// use std::sync::LazyLock;
/// use plugin_sdk::{Problem, Problems};
/// use plugins_protobuf::{Descriptors, Schema};
/// use prost_reflect::MessageDescriptor;
///
/// /// `shop.v1.Service`, from the files of the program's own directory `protos`.
/// struct Service;
///
/// impl Schema for Service {
///     fn message() -> Result<MessageDescriptor, Problem> {
///         static PROTOS: LazyLock<Result<Descriptors, Problem>> =
///             LazyLock::new(|| Descriptors::compile(["protos"], ["shop/v1/service.proto"]));
///         PROTOS.clone()?.message("shop.v1.Service")
///     }
/// }
/// # let _ = Service::message();
/// ```
pub trait Schema: Send + Sync + 'static {
    /// The descriptor of the message. Called for each file, so keep it in a static variable.
    ///
    /// # Errors
    /// Why there is none, as a problem of each file.
    fn message() -> Result<MessageDescriptor, Problem>;
}

/// The tree of a message: that of its JSON mapping, without positions but for the root.
///
/// # Errors
/// When the message has unknown fields, or something that JSON cannot hold, or its JSON is not an object.
pub(crate) fn tree(message: &DynamicMessage) -> Result<Node, Problem> {
    let json = to_json(message).map_err(|error| Problem::new(with_causes(&error)))?;
    let json: serde_json::Value = serde_json::from_str(&json).map_err(Problem::new)?;
    let value = Node::from(json).value;
    match value {
        Value::Map(_) => Ok(Node {
            line: 1,
            column: 1,
            value,
        }),
        _ => Err(Problem::new(
            "the JSON of this message is not an object; put the message into a field of another one",
        )),
    }
}

/// An error with everything that led to it.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
