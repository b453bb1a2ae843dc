//! Random messages of any type survive the way to JSON and back.

use proptest::prelude::*;
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MapKey};

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_messages_survive_the_way_to_json_and_back(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let all = message("test.v1.All");
        let original = Bytes(&bytes).message(&all, 0);
        let json = to_json(&original).unwrap();
        let read = from_json(&all, &json).unwrap();
        // Without their `Debug`, which does not end for types that contain themselves.
        prop_assert!(read == original, "{}", json);
        prop_assert_eq!(to_json(&read).unwrap(), json.clone());
        check(&all, &json).unwrap();
        // The same content has the same JSON, whatever the order of its bytes on the wire was.
        let decoded = DynamicMessage::decode(all, &*prost::Message::encode_to_vec(&read)).unwrap();
        prop_assert_eq!(to_json(&decoded).unwrap(), json);
    }
}

/// Bytes that decide what a message is. Without any left, every choice is 0.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes([(); 8].map(|()| self.byte()))
    }

    /// A number that is often small or at a limit.
    fn integer(&mut self) -> i64 {
        match self.byte() % 4 {
            0 => i64::from(self.byte()) - 128,
            1 => [i64::MIN, i64::MAX, 1 << 53, (1 << 53) + 1][usize::from(self.byte() % 4)],
            _ => self.number() as i64,
        }
    }

    fn float(&mut self) -> f64 {
        let float = f64::from_bits(self.number());
        if float.is_finite() { float } else { 0.1 }
    }

    fn text(&mut self) -> String {
        let length = self.byte() % 6;
        let character = |bytes: &mut Self| match bytes.byte() {
            byte @ 0..128 => char::from(byte),
            byte => char::from_u32(u32::from(byte) * 997).unwrap_or('\u{2028}'),
        };
        (0..length).map(|_| character(self)).collect()
    }

    fn message(&mut self, descriptor: &MessageDescriptor, depth: usize) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        match descriptor.full_name() {
            "google.protobuf.Timestamp" => {
                let seconds = self.number() % (253_402_300_800 + 62_135_596_800);
                set(
                    &mut message,
                    "seconds",
                    Value::I64(seconds as i64 - 62_135_596_800),
                );
                self.nanos(&mut message, 1);
            }
            "google.protobuf.Duration" => {
                let seconds = (self.number() % 315_576_000_000) as i64;
                let sign = if self.byte().is_multiple_of(2) { 1 } else { -1 };
                set(&mut message, "seconds", Value::I64(seconds * sign));
                self.nanos(&mut message, i32::try_from(sign).unwrap());
            }
            "google.protobuf.FieldMask" => {
                let paths =
                    ["is_on", "inner.maybe_f64", "text"].map(|path| Value::String(path.into()));
                let count = usize::from(self.byte() % 4);
                set(&mut message, "paths", Value::List(paths[..count].to_vec()));
            }
            "google.protobuf.Any" => {
                // One without maps, whose entries would be packed in any order.
                let packed = self.message(&super::message("test.v1.Job"), depth + 2);
                let bytes = prost::Message::encode_to_vec(&packed);
                message
                    .set_field_by_name("type_url", Value::String("example.com/test.v1.Job".into()));
                set(&mut message, "value", Value::Bytes(bytes.into()));
            }
            "google.protobuf.Value" => {
                // One without a kind has no JSON of its own.
                let kinds: Vec<_> = descriptor.fields().collect();
                let shallow = if depth > 4 { 4 } else { kinds.len() };
                let kind = &kinds[usize::from(self.byte()) % shallow];
                let value = self.value(&kind.kind(), depth);
                message.set_field(kind, value);
            }
            _ => {
                for field in descriptor.fields() {
                    if self.byte() % 4 == 1 {
                        self.field(&mut message, &field, depth);
                    }
                }
            }
        }
        message
    }

    fn nanos(&mut self, message: &mut DynamicMessage, sign: i32) {
        let nanos = [0, 1, 500_000_000, 999_999_999][usize::from(self.byte() % 4)];
        set(message, "nanos", Value::I32(nanos * sign));
    }

    fn field(&mut self, message: &mut DynamicMessage, field: &FieldDescriptor, depth: usize) {
        let kind = field.kind();
        if depth > 3 && matches!(kind, Kind::Message(_)) {
            return;
        }
        let count = self.byte() % 3;
        let value = if field.is_map() {
            let Kind::Message(entry) = &kind else { return };
            let (key, value) = (
                entry.map_entry_key_field().kind(),
                entry.map_entry_value_field().kind(),
            );
            let entries = (0..count).map(|_| (self.key(&key), self.value(&value, depth)));
            Value::Map(entries.collect())
        } else if field.is_list() {
            Value::List((0..count).map(|_| self.value(&kind, depth)).collect())
        } else {
            self.value(&kind, depth)
        };
        set(message, field.name(), value);
    }

    fn key(&mut self, kind: &Kind) -> MapKey {
        match kind {
            Kind::String => MapKey::String(self.text()),
            Kind::Bool => MapKey::Bool(self.byte() > 127),
            _ => MapKey::I64(self.integer()),
        }
    }

    fn value(&mut self, kind: &Kind, depth: usize) -> Value {
        match kind {
            Kind::Double => Value::F64(self.float()),
            Kind::Float => {
                let float = f32::from_bits(self.number() as u32);
                Value::F32(if float.is_finite() { float } else { 0.1 })
            }
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(self.integer() as i32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(self.integer()),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(self.integer() as u32),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(self.integer() as u64),
            Kind::Bool => Value::Bool(self.byte() > 127),
            Kind::String => Value::String(self.text()),
            Kind::Bytes => Value::Bytes(self.text().into_bytes().into()),
            Kind::Enum(of) => Value::EnumNumber(self.enum_number(of)),
            Kind::Message(of) => Value::Message(self.message(of, depth + 1)),
        }
    }

    /// Also one that the enum does not have, which proto3 keeps.
    fn enum_number(&mut self, of: &EnumDescriptor) -> i32 {
        match of.full_name() {
            "google.protobuf.NullValue" => 0,
            _ => i32::from(self.byte() % 5),
        }
    }
}

/// Sets a field, but not to a default that is the same as no value: the library tells them apart in memory.
fn set(message: &mut DynamicMessage, name: &str, value: Value) {
    let field = message.descriptor().get_field_by_name(name).unwrap();
    if field.supports_presence() || !value.is_default_for_field(&field) {
        message.set_field(&field, value);
    }
}
