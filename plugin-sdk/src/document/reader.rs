//! The serde deserializer for a document's tree. Values that do not fit are reported with line, column and field path.

use std::fmt::{self, Write};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IntoDeserializer, Visitor},
    forward_to_deserialize_any,
};

use super::{Name, Node, Value, located, path::write_key};

/// Start of the names of the framework's own types.
const OWN: &str = "prodspec.";

/// The path of a value from the outermost value of its document.
#[derive(Debug, Clone, Copy)]
enum Path<'p> {
    /// The path of the value at which the reading begins.
    Base(&'p str),
    Key(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    /// The path as text. Most paths are those of located values, one for each asset.
    fn text(&self) -> String {
        let mut text = String::with_capacity(64);
        // Writing to a text does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        match self {
            Self::Base(path) => text.write_str(path),
            Self::Key(within, key) => {
                within.write(text)?;
                write_key(text, key, matches!(within, Self::Base("")))
            }
            Self::Item(within, nth) => {
                within.write(text)?;
                write!(text, "[{nth}]")
            }
        }
    }
}

/// A value that does not fit, with its position and its path.
#[derive(Debug)]
pub(super) struct Misread {
    pub(super) message: String,
    pub(super) at: Option<(u32, u32)>,
    path: String,
}

/// Deserializes `node`, which is at the field path `path` of its document, as a `T`.
pub(super) fn read<'de, T: Deserialize<'de>>(node: &'de Node, path: &str) -> Result<T, Misread> {
    let path = &Path::Base(path);
    let reader = Reader { node, path };
    T::deserialize(reader).map_err(|wrong| reader.misread(wrong))
}

impl Misread {
    /// Sets the position and the path, unless the misfit of an inner value set them.
    fn at(mut self, line: u32, column: u32, path: &Path<'_>) -> Self {
        if self.at.is_none() {
            self.at = Some((line, column));
            self.path = path.text();
        }
        self
    }

    /// The field path from the outermost value of the document, such as `clusters[1].replicas`.
    pub(super) fn path(&self) -> String {
        self.path.clone()
    }
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Misread {}

impl de::Error for Misread {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            at: None,
            path: String::new(),
        }
    }
}

#[derive(Clone, Copy)]
struct Reader<'de, 'p> {
    node: &'de Node,
    path: &'p Path<'p>,
}

impl Reader<'_, '_> {
    fn misread(&self, wrong: Misread) -> Misread {
        wrong.at(self.node.line, self.node.column, self.path)
    }
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = Misread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(is) => visitor.visit_bool(*is),
            Value::Int(int) => visitor.visit_i64(*int),
            Value::Uint(uint) => visitor.visit_u64(*uint),
            Value::Float(float) => visitor.visit_f64(*float),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Sequence(items) => visitor.visit_seq(Items {
                items: items.iter(),
                next: 0,
                path: self.path,
            }),
            Value::Map(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                value: None,
                path: self.path,
            }),
        }
        .map_err(|wrong| self.misread(wrong))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misread> {
        if name == located::NAME {
            return visitor.visit_seq(Parts {
                reader: self,
                next: 0,
            });
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misread> {
        match &self.node.value {
            Value::String(text) => {
                visitor.visit_enum(IntoDeserializer::<Misread>::into_deserializer(&**text))
            }
            Value::Map(entries) => match &entries[..] {
                [(name, content)] => visitor.visit_enum(Variant {
                    name,
                    content,
                    path: self.path,
                }),
                _ => Err(de::Error::custom(
                    "expected one variant: a name, or a map with one entry",
                )),
            },
            _ => Err(de::Error::custom(
                "expected a variant: a name, or a map with one entry",
            )),
        }
        .map_err(|wrong| self.misread(wrong))
    }

    /// The framework's own types ignore unknown fields, because a newer program version may have written them. In a
    /// document they are mistakes.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misread> {
        if let (true, Value::Map(entries)) = (name.starts_with(OWN), &self.node.value)
            && let Some((name, _)) = entries
                .iter()
                .find(|(name, _)| !fields.contains(&&*name.text))
        {
            let wrong = <Misread as de::Error>::unknown_field(&name.text, fields);
            return Err(wrong.at(name.line, name.column, &Path::Key(self.path, &name.text)));
        }
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'de, 'p> {
    items: std::slice::Iter<'de, Node>,
    next: usize,
    path: &'p Path<'p>,
}

impl<'de> de::SeqAccess<'de> for Items<'de, '_> {
    type Error = Misread;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misread> {
        let Some(node) = self.items.next() else {
            return Ok(None);
        };
        let path = &Path::Item(self.path, self.next);
        self.next += 1;
        let reader = Reader { node, path };
        let item = seed.deserialize(reader);
        item.map(Some).map_err(|wrong| reader.misread(wrong))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Entries<'de, 'p> {
    entries: std::slice::Iter<'de, (Name, Node)>,
    value: Option<&'de (Name, Node)>,
    path: &'p Path<'p>,
}

impl<'de> de::MapAccess<'de> for Entries<'de, '_> {
    type Error = Misread;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misread> {
        let Some(entry) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(entry);
        let name = &entry.0;
        seed.deserialize(KeyReader(&name.text))
            .map(Some)
            .map_err(|wrong| wrong.at(name.line, name.column, &Path::Key(self.path, &name.text)))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Misread> {
        let Some((name, node)) = self.value.take() else {
            return Err(de::Error::custom("a value was requested before its key"));
        };
        let path = &Path::Key(self.path, &name.text);
        let reader = Reader { node, path };
        seed.deserialize(reader)
            .map_err(|wrong| reader.misread(wrong))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// Deserializes a key: text, or a number or bool if the type requires one.
struct KeyReader<'de>(&'de str);

macro_rules! parsed {
    ($($method:ident $visit:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
            match self.0.parse() {
                Ok(parsed) => visitor.$visit(parsed),
                Err(_) => visitor.visit_borrowed_str(self.0),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for KeyReader<'de> {
    type Error = Misread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        visitor.visit_borrowed_str(self.0)
    }

    parsed! {
        deserialize_bool visit_bool
        deserialize_i8 visit_i64 deserialize_i16 visit_i64 deserialize_i32 visit_i64 deserialize_i64 visit_i64
        deserialize_u8 visit_u64 deserialize_u16 visit_u64 deserialize_u32 visit_u64 deserialize_u64 visit_u64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misread> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misread> {
        visitor.visit_enum(IntoDeserializer::<Misread>::into_deserializer(self.0))
    }

    forward_to_deserialize_any! {
        i128 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// An enum variant with content: `{name: content}`.
struct Variant<'de, 'p> {
    name: &'de Name,
    content: &'de Node,
    path: &'p Path<'p>,
}

impl<'de> de::EnumAccess<'de> for Variant<'de, '_> {
    type Error = Misread;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Misread> {
        let Name { line, column, text } = self.name;
        let variant = seed
            .deserialize(KeyReader(text))
            .map_err(|wrong: Misread| wrong.at(*line, *column, self.path))?;
        Ok((variant, self))
    }
}

impl<'de> Variant<'de, '_> {
    fn inside<T>(
        self,
        read: impl FnOnce(Reader<'de, '_>) -> Result<T, Misread>,
    ) -> Result<T, Misread> {
        let path = &Path::Key(self.path, &self.name.text);
        let node = self.content;
        let reader = Reader { node, path };
        read(reader).map_err(|wrong| reader.misread(wrong))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'de, '_> {
    type Error = Misread;

    fn unit_variant(self) -> Result<(), Misread> {
        self.inside(|content| <()>::deserialize(content))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Misread> {
        self.inside(|content| seed.deserialize(content))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Misread> {
        self.inside(|content| content.deserialize_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misread> {
        self.inside(|content| content.deserialize_any(visitor))
    }
}

/// The parts of a located value: its path and the value.
struct Parts<'de, 'p> {
    reader: Reader<'de, 'p>,
    next: u8,
}

impl<'de> de::SeqAccess<'de> for Parts<'de, '_> {
    type Error = Misread;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misread> {
        self.next += 1;
        match self.next {
            1 => seed.deserialize(self.reader.path.text().into_deserializer()),
            2 => seed.deserialize(self.reader),
            _ => return Ok(None),
        }
        .map(Some)
    }
}
