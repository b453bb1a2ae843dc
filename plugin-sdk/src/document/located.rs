//! Values with their positions, for generators whose assets and problems should point to an exact line.

use std::{fmt, marker::PhantomData, ops::Deref};

use serde::{Deserialize, Deserializer, de};

/// A `T` and its position in its document. Deserialized from other formats, line and column are 0.
///
/// ```
/// # use plugin_sdk::document::{Document, Located, Node, Value};
/// let two = Node { line: 7, column: 3, value: Value::Int(2) };
/// let list = Node { line: 6, column: 1, value: Value::Sequence(vec![two]) };
/// let read: Vec<Located<u32>> = Document::new("m", "m", 0, list).read()?;
/// assert_eq!((*read[0], read[0].line, read[0].column), (2, 7, 3));
/// # Ok::<(), plugin_sdk::Problem>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Located<T> {
    /// The value at this position.
    pub value: T,
    /// Line, from 1; 0 when unknown.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
}

impl<T> Deref for Located<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// The name that [`Located`] passes to a deserializer. The document reader answers it with line, column and value.
pub(super) const NAME: &str = "$plugin_sdk::Located";

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Located<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<Located<T>, D::Error> {
                let value = T::deserialize(deserializer)?;
                Ok(Located {
                    value,
                    line: 0,
                    column: 0,
                })
            }

            fn visit_seq<A: de::SeqAccess<'de>>(
                self,
                mut parts: A,
            ) -> Result<Located<T>, A::Error> {
                let missing = || de::Error::custom("a located value has three parts");
                Ok(Located {
                    line: parts.next_element()?.ok_or_else(missing)?,
                    column: parts.next_element()?.ok_or_else(missing)?,
                    value: parts.next_element()?.ok_or_else(missing)?,
                })
            }
        }

        deserializer.deserialize_newtype_struct(NAME, Visitor(PhantomData))
    }
}
