//! What a message must not have before it is written as JSON: unknown fields, which the JSON would not have, and numbers
//! that are not finite, which the JSON mapping would write as texts.

use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::Error;
use crate::canonical::{self, MAX_DEPTH};

/// The full name of a packed message.
const ANY: &str = "google.protobuf.Any";

pub(super) fn check(message: &DynamicMessage) -> Result<(), Error> {
    Visit::default().message(message)
}

/// The way from the outermost message to the present value.
#[derive(Default)]
struct Visit {
    path: Vec<String>,
}

impl Visit {
    fn message(&mut self, message: &DynamicMessage) -> Result<(), Error> {
        if self.path.len() > MAX_DEPTH {
            return Err(canonical::Error::TooDeep.into());
        }
        if let Some(unknown) = message.unknown_fields().next() {
            let at = match self.path.is_empty() {
                true => String::new(),
                false => format!("{}: ", self.field()),
            };
            return Err(Error::Unknown {
                at,
                number: unknown.number(),
            });
        }
        for (field, value) in message.fields() {
            self.within(format!(".{}", field.json_name()), |visit| {
                visit.value(value)
            })?;
        }
        for (extension, value) in message.extensions() {
            self.within(format!(".{}", extension.json_name()), |visit| {
                visit.value(value)
            })?;
        }
        match message.descriptor().full_name() {
            ANY => self.packed(message),
            _ => Ok(()),
        }
    }

    fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value {
            Value::Message(message) => self.message(message),
            Value::List(items) => items.iter().enumerate().try_for_each(|(index, item)| {
                self.within(format!("[{index}]"), |visit| visit.value(item))
            }),
            Value::Map(entries) => {
                // Sorted, so that the same message has the same error.
                let mut keyed: Vec<(String, &Value)> = entries
                    .iter()
                    .map(|(key, value)| (format!("[{key:?}]"), value))
                    .collect();
                keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
                keyed
                    .into_iter()
                    .try_for_each(|(key, value)| self.within(key, |visit| visit.value(value)))
            }
            Value::F32(float) if !float.is_finite() => Err(self.not_finite(float)),
            Value::F64(float) if !float.is_finite() => Err(self.not_finite(float)),
            _ => Ok(()),
        }
    }

    /// Checks the message that is packed in an `Any`.
    fn packed(&mut self, any: &DynamicMessage) -> Result<(), Error> {
        let field = |name| any.get_field_by_name(name);
        let type_url = field("type_url").and_then(|value| value.as_str().map(str::to_owned));
        let type_url = type_url.unwrap_or_default();
        let bytes = field("value").and_then(|value| value.as_bytes().cloned());
        let name = type_url.rsplit('/').next().unwrap_or_default();
        let pool = any.descriptor();
        let why = match pool.parent_pool().get_message_by_name(name) {
            None => "its descriptor is missing; add it to those of the message".to_owned(),
            Some(descriptor) => {
                match DynamicMessage::decode(descriptor, bytes.unwrap_or_default()) {
                    Ok(message) => {
                        return self.within(".value".into(), |visit| visit.message(&message));
                    }
                    Err(error) => format!("{error}; pack it again"),
                }
            }
        };
        Err(Error::Packed {
            field: self.field(),
            type_url,
            why,
        })
    }

    fn not_finite(&self, number: &dyn std::fmt::Display) -> Error {
        Error::NotFinite {
            field: self.field(),
            number: number.to_string(),
        }
    }

    fn within(
        &mut self,
        step: String,
        visit: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.path.push(step);
        let visited = visit(self);
        if visited.is_ok() {
            self.path.pop();
        }
        visited
    }

    fn field(&self) -> String {
        self.path.concat().trim_start_matches('.').to_owned()
    }
}
