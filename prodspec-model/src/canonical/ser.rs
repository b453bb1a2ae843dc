//! The serializer of [`super::to_bytes`]: writes directly to bytes and sorts each object's entries in place.

use std::ops::Range;

use serde::{Serialize, ser};

use super::{Error, MAX_DEPTH};

/// Serializer that appends one value to `out`.
pub(super) struct Canonical<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) depth: usize,
}

impl ser::Error for Error {
    fn custom<T: std::fmt::Display>(text: T) -> Self {
        Self::Custom(text.to_string())
    }
}

impl Canonical<'_> {
    fn display(&mut self, value: impl std::fmt::Display) -> Result<(), Error> {
        use std::io::Write;
        write!(self.out, "{value}").map_err(ser::Error::custom)
    }

    fn plain<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        serde_json::to_writer(&mut *self.out, value).map_err(ser::Error::custom)
    }

    fn nested<T: Serialize + ?Sized>(&mut self, value: &T, deeper: usize) -> Result<(), Error> {
        let depth = self.depth + deeper;
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        value.serialize(&mut Canonical {
            out: self.out,
            depth,
        })
    }

    fn list(&mut self, close: &'static [u8]) -> List<'_> {
        self.out.push(b'[');
        List {
            out: self.out,
            depth: self.depth,
            first: true,
            close,
        }
    }

    fn object(&mut self, close: &'static [u8]) -> Object<'_> {
        self.out.push(b'{');
        Object {
            start: self.out.len(),
            out: self.out,
            depth: self.depth,
            entries: Vec::new(),
            close,
        }
    }

    fn variant(&mut self, name: &str) -> Result<(), Error> {
        self.out.push(b'{');
        self.plain(name)?;
        self.out.push(b':');
        self.depth += 1;
        Ok(())
    }
}

macro_rules! as_display {
    ($($method:ident: $type:ty),*) => { $(
        fn $method(self, v: $type) -> Result<(), Error> { self.display(v) }
    )* };
}

impl<'a> ser::Serializer for &'a mut Canonical<'_> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = List<'a>;
    type SerializeMap = Object<'a>;
    type SerializeStruct = Object<'a>;
    type SerializeStructVariant = Object<'a>;

    as_display!(serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);

    fn serialize_i128(self, v: i128) -> Result<(), Error> {
        match i64::try_from(v) {
            Ok(v) => self.display(v),
            Err(_) => u64::try_from(v)
                .map_err(|_| Error::TooLarge(v.to_string()))
                .and_then(|v| self.display(v)),
        }
    }

    fn serialize_u128(self, v: u128) -> Result<(), Error> {
        u64::try_from(v)
            .map_err(|_| Error::TooLarge(v.to_string()))
            .and_then(|v| self.display(v))
    }

    fn serialize_f32(self, v: f32) -> Result<(), Error> {
        if v.is_finite() {
            self.plain(&v)
        } else {
            Err(Error::NotFinite(v.to_string()))
        }
    }

    fn serialize_f64(self, v: f64) -> Result<(), Error> {
        if v.is_finite() {
            self.plain(&v)
        } else {
            Err(Error::NotFinite(v.to_string()))
        }
    }

    fn serialize_char(self, v: char) -> Result<(), Error> {
        self.plain(&v)
    }

    fn serialize_str(self, v: &str) -> Result<(), Error> {
        self.plain(v)
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<(), Error> {
        self.plain(v)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.plain(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant)?;
        self.nested(value, 0)?;
        self.depth -= 1;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, Error> {
        Ok(self.list(b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'a>, Error> {
        Ok(self.list(b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'a>, Error> {
        Ok(self.list(b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        v: &'static str,
        _: usize,
    ) -> Result<List<'a>, Error> {
        self.variant(v)?;
        Ok(self.list(b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Object<'a>, Error> {
        Ok(self.object(b"}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Object<'a>, Error> {
        if name.starts_with("$serde_json::private") {
            return Err(Error::Custom(
                "raw JSON text has no canonical form; use serde_json::Value".into(),
            ));
        }
        Ok(self.object(b"}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        v: &'static str,
        _: usize,
    ) -> Result<Object<'a>, Error> {
        self.variant(v)?;
        Ok(self.object(b"}}"))
    }
}

/// The serializer of an array that is not finished yet.
pub(super) struct List<'a> {
    out: &'a mut Vec<u8>,
    depth: usize,
    first: bool,
    close: &'static [u8],
}

impl List<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        Canonical {
            out: self.out,
            depth: self.depth,
        }
        .nested(value, 1)
    }

    fn finish(self) -> Result<(), Error> {
        self.out.extend_from_slice(self.close);
        Ok(())
    }
}

/// One entry of an unfinished object: the range of its key (without quotes) and the end of its value in the output.
struct Entry {
    key: Range<usize>,
    end: usize,
}

/// The serializer of an object that is not finished yet. Entries are written in the order in which they come, and
/// sorted at the end if necessary.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    depth: usize,
    start: usize,
    entries: Vec<Entry>,
    close: &'static [u8],
}

impl Object<'_> {
    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        if !self.entries.is_empty() {
            self.out.push(b',');
        }
        let before = self.out.len();
        Canonical {
            out: self.out,
            depth: self.depth,
        }
        .nested(key, 1)?;
        match self.out.get(before) {
            Some(b'"') => {}
            Some(b'0'..=b'9' | b'-') => {
                self.out.insert(before, b'"');
                self.out.push(b'"');
            }
            _ => return Err(Error::Key),
        }
        self.entries.push(Entry {
            key: before + 1..self.out.len() - 1,
            end: 0,
        });
        self.out.push(b':');
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        Canonical {
            out: self.out,
            depth: self.depth,
        }
        .nested(value, 1)?;
        if let Some(entry) = self.entries.last_mut() {
            entry.end = self.out.len();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Error> {
        let out = &self.out[..];
        let sorted = self
            .entries
            .windows(2)
            .all(|pair| out[pair[0].key.clone()] < out[pair[1].key.clone()]);
        if !sorted {
            self.sort()?;
        }
        self.out.extend_from_slice(self.close);
        Ok(())
    }

    fn sort(&mut self) -> Result<(), Error> {
        let written = self.out.split_off(self.start);
        let local = |range: &Range<usize>| range.start - self.start..range.end - self.start;
        self.entries
            .sort_by(|a, b| written[local(&a.key)].cmp(&written[local(&b.key)]));
        for (at, entry) in self.entries.iter().enumerate() {
            let key = &written[local(&entry.key)];
            if at > 0 {
                if key == &written[local(&self.entries[at - 1].key)] {
                    return Err(Error::DuplicateKey(
                        String::from_utf8_lossy(key).into_owned(),
                    ));
                }
                self.out.push(b',');
            }
            self.out
                .extend_from_slice(&written[local(&(entry.key.start - 1..entry.end))]);
        }
        Ok(())
    }
}

macro_rules! items {
    ($ser:ident, $method:ident) => {
        impl ser::$ser for List<'_> {
            type Ok = ();
            type Error = Error;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }
            fn end(self) -> Result<(), Error> {
                self.finish()
            }
        }
    };
}

items!(SerializeSeq, serialize_element);
items!(SerializeTuple, serialize_element);
items!(SerializeTupleStruct, serialize_field);
items!(SerializeTupleVariant, serialize_field);

macro_rules! fields {
    ($ser:ident) => {
        impl ser::$ser for Object<'_> {
            type Ok = ();
            type Error = Error;
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.key(key)?;
                self.value(value)
            }
            fn end(self) -> Result<(), Error> {
                self.finish()
            }
        }
    };
}

fields!(SerializeStruct);
fields!(SerializeStructVariant);

impl ser::SerializeMap for Object<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}
