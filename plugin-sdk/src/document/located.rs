//! Values with their field paths, for generators whose assets and problems should point to an exact place.

use std::{fmt, marker::PhantomData, ops::Deref};

use serde::{Deserialize, Deserializer, de};

use super::path::{FieldPath, Step};

/// A `T` and the path of its field in its document, such as `clusters[1]`. It knows no line: a line is wrong after the
/// next edit of the document. Deserialized from other formats, the path is empty.
///
/// ```
/// # use plugin_sdk::document::{Document, Located, Node};
/// let list = Node::from(serde_json::json!({ "sizes": [1, 2] }));
/// let document = Document::new("m.yaml", "m.yaml", 0, list);
/// let sizes: Vec<Located<u32>> = document.read_at("sizes")?;
/// assert_eq!((*sizes[1], &*sizes[1].path), (2, "sizes[1]"));
/// let from = document.provenance_at(&*sizes[1].path);
/// assert_eq!(from.path, "sizes[1]");
/// # Ok::<(), plugin_sdk::Problem>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Located<T> {
    /// The value of this field.
    pub value: T,
    /// The path of the field from the outermost value of the document.
    pub path: Box<str>,
}

impl<T> Located<T> {
    /// The same item of a list, named by its field `by`, which has the value `is` in no other item. Programs that hold fields of
    /// the item need such a path: another item has its index after the next insertion.
    ///
    /// ```
    /// # use plugin_sdk::document::{Document, Located, Node};
    /// #[derive(serde::Deserialize)]
    /// struct Cluster { name: String }
    ///
    /// let list = Node::from(serde_json::json!({ "clusters": [{ "name": "eu" }] }));
    /// let document = Document::new("m.yaml", "m.yaml", 0, list);
    /// let clusters: Vec<Located<Cluster>> = document.read_at("clusters")?;
    /// for cluster in clusters.into_iter().map(|it| it.by("name", |it| &it.name)) {
    ///     assert_eq!(&*cluster.path, r#"clusters[name="eu"]"#);
    /// }
    /// # Ok::<(), plugin_sdk::Problem>(())
    /// ```
    #[must_use]
    pub fn by(mut self, by: &str, is: impl FnOnce(&T) -> &str) -> Self {
        let path = self.path.parse::<FieldPath>().ok();
        if let Some((list, Step::Index(_))) = path.as_ref().and_then(FieldPath::split_last) {
            self.path = list.item(by, is(&self.value)).to_string().into();
        }
        self
    }
}

impl<T> Deref for Located<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// The name that [`Located`] passes to a deserializer. The document reader answers it with path and value.
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
                    path: Box::default(),
                })
            }

            fn visit_seq<A: de::SeqAccess<'de>>(
                self,
                mut parts: A,
            ) -> Result<Located<T>, A::Error> {
                let missing = || de::Error::custom("a located value has two parts");
                Ok(Located {
                    path: parts.next_element()?.ok_or_else(missing)?,
                    value: parts.next_element()?.ok_or_else(missing)?,
                })
            }
        }

        deserializer.deserialize_newtype_struct(NAME, Visitor(PhantomData))
    }
}
