//! The serde deserializer for a document's tree. Values that do not fit are reported with line, column and field path.

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IntoDeserializer, Visitor},
    forward_to_deserialize_any,
};

use super::{Name, Node, Value, located};

/// A value that does not fit, and its position.
#[derive(Debug)]
pub(super) struct Misread {
    pub(super) message: String,
    pub(super) at: Option<(u32, u32)>,
    /// The segments of the field path, innermost first.
    segments: Vec<String>,
}

/// Deserializes `node` as a `T`.
pub(super) fn read<'de, T: Deserialize<'de>>(node: &'de Node) -> Result<T, Misread> {
    T::deserialize(Reader(node)).map_err(|wrong| wrong.at(node.line, node.column))
}

impl Misread {
    fn at(mut self, line: u32, column: u32) -> Self {
        self.at.get_or_insert((line, column));
        self
    }

    fn under(mut self, segment: String) -> Self {
        self.segments.push(segment);
        self
    }

    /// The field path from the outermost value, such as `clusters[1].replicas`.
    pub(super) fn path(&self) -> String {
        let path: String = self.segments.iter().rev().map(String::as_str).collect();
        path.strip_prefix('.').unwrap_or(&path).to_owned()
    }
}

impl std::fmt::Display for Misread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Misread {}

impl de::Error for Misread {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            at: None,
            segments: Vec::new(),
        }
    }
}

#[derive(Clone, Copy)]
struct Reader<'de>(&'de Node);

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Misread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(is) => visitor.visit_bool(*is),
            Value::Int(int) => visitor.visit_i64(*int),
            Value::Uint(uint) => visitor.visit_u64(*uint),
            Value::Float(float) => visitor.visit_f64(*float),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Sequence(items) => visitor.visit_seq(Items {
                items: items.iter(),
                next: 0,
            }),
            Value::Map(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                value: None,
            }),
        }
        .map_err(|wrong| wrong.at(self.0.line, self.0.column))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match self.0.value {
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
                node: self.0,
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
        match &self.0.value {
            Value::String(text) => {
                visitor.visit_enum(IntoDeserializer::<Misread>::into_deserializer(&**text))
            }
            Value::Map(entries) => match &entries[..] {
                [(name, content)] => visitor.visit_enum(Variant { name, content }),
                _ => Err(de::Error::custom(
                    "expected one variant: a name, or a map with one entry",
                )),
            },
            _ => Err(de::Error::custom(
                "expected a variant: a name, or a map with one entry",
            )),
        }
        .map_err(|wrong: Misread| wrong.at(self.0.line, self.0.column))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'de> {
    items: std::slice::Iter<'de, Node>,
    next: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = Misread;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misread> {
        let Some(node) = self.items.next() else {
            return Ok(None);
        };
        let nth = self.next;
        self.next += 1;
        seed.deserialize(Reader(node))
            .map(Some)
            .map_err(|wrong| wrong.at(node.line, node.column).under(format!("[{nth}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, (Name, Node)>,
    value: Option<&'de (Name, Node)>,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
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
            .map_err(|wrong| {
                wrong
                    .at(name.line, name.column)
                    .under(format!(".{}", name.text))
            })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Misread> {
        let Some((name, node)) = self.value.take() else {
            return Err(de::Error::custom("a value was requested before its key"));
        };
        seed.deserialize(Reader(node)).map_err(|wrong| {
            wrong
                .at(node.line, node.column)
                .under(format!(".{}", name.text))
        })
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
struct Variant<'de> {
    name: &'de Name,
    content: &'de Node,
}

impl<'de> de::EnumAccess<'de> for Variant<'de> {
    type Error = Misread;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Misread> {
        let variant = seed
            .deserialize(KeyReader(&self.name.text))
            .map_err(|wrong| wrong.at(self.name.line, self.name.column))?;
        Ok((variant, self))
    }
}

impl<'de> Variant<'de> {
    fn inside<T>(self, read: impl FnOnce(Reader<'de>) -> Result<T, Misread>) -> Result<T, Misread> {
        let Self { name, content } = self;
        read(Reader(content)).map_err(|wrong| {
            wrong
                .at(content.line, content.column)
                .under(format!(".{}", name.text))
        })
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'de> {
    type Error = Misread;

    fn unit_variant(self) -> Result<(), Misread> {
        self.inside(<()>::deserialize)
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

/// The parts of a located value: line, column, value.
struct Parts<'de> {
    node: &'de Node,
    next: u8,
}

impl<'de> de::SeqAccess<'de> for Parts<'de> {
    type Error = Misread;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misread> {
        self.next += 1;
        match self.next {
            1 => seed.deserialize(self.node.line.into_deserializer()),
            2 => seed.deserialize(self.node.column.into_deserializer()),
            3 => seed.deserialize(Reader(self.node)),
            _ => return Ok(None),
        }
        .map(Some)
    }
}
