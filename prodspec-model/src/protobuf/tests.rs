//! Laws and examples of the mapping between messages and canonical JSON.

mod random;

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, ReflectMessage, Value};
use protox::{
    Compiler,
    file::{ChainFileResolver, File, FileResolver, GoogleFileResolver},
};
use serde_json::json;

use super::*;
use crate::{Asset, AssetId, message::Message};

const SOURCE: &str = r#"
    syntax = "proto3";
    package test.v1;
    import "google/protobuf/any.proto";
    import "google/protobuf/duration.proto";
    import "google/protobuf/empty.proto";
    import "google/protobuf/field_mask.proto";
    import "google/protobuf/struct.proto";
    import "google/protobuf/timestamp.proto";
    import "google/protobuf/wrappers.proto";
    enum Size { SIZE_UNSPECIFIED = 0; SMALL = 1; LARGE = 2; }
    message All {
      double f64 = 1; float f32 = 2; int32 i32 = 3; int64 i64 = 4; uint32 u32 = 5; uint64 u64 = 6;
      sint32 s32 = 7; sint64 s64 = 8; fixed64 x64 = 9; bool is_on = 10; string text = 11; bytes raw = 12;
      Size size = 13; optional int32 maybe = 14; repeated int64 many = 15; map<string, All> named = 16;
      map<int64, string> numbered = 17; map<bool, Size> sizes = 18; All inner = 19; repeated All others = 20;
      oneof choice { string one = 21; uint64 two = 22; All three = 23; }
      google.protobuf.Any any = 30; google.protobuf.Duration duration = 31; google.protobuf.Empty empty = 32;
      google.protobuf.FieldMask mask = 33; google.protobuf.Struct structure = 34; google.protobuf.Value value = 35;
      google.protobuf.ListValue list = 36; google.protobuf.Timestamp time = 37;
      google.protobuf.DoubleValue maybe_f64 = 40; google.protobuf.FloatValue maybe_f32 = 41;
      google.protobuf.Int64Value maybe_i64 = 42; google.protobuf.UInt64Value maybe_u64 = 43;
      google.protobuf.BoolValue maybe_bool = 44; google.protobuf.StringValue maybe_text = 45;
      google.protobuf.BytesValue maybe_raw = 46;
      string renamed = 50 [json_name = "other"];
    }
    message Job { string name = 1; int64 replicas = 2; message Nested { string name = 1; } }
"#;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| compile(SOURCE));

/// The descriptors of a file.
fn compile(source: &str) -> DescriptorPool {
    struct Memory(String);
    impl FileResolver for Memory {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            match name {
                "test.proto" => File::from_source(name, &self.0),
                _ => Err(protox::Error::file_not_found(name)),
            }
        }
    }
    let mut files = ChainFileResolver::new();
    files.add(Memory(source.into()));
    files.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(files);
    compiler.open_file("test.proto").unwrap();
    compiler.descriptor_pool()
}

fn message(name: &str) -> MessageDescriptor {
    POOL.get_message_by_name(name).unwrap()
}

/// The JSON that is written for a message read from `json`.
fn through(json: &serde_json::Value) -> serde_json::Value {
    let read = from_json(&message("test.v1.All"), &json.to_string()).unwrap();
    serde_json::from_str(&to_json(&read).unwrap()).unwrap()
}

#[test]
fn well_known_types_have_their_own_json() {
    let every = json!({
        "f64": 0.1, "f32": 0.1, "i64": "-9223372036854775808", "u64": "18446744073709551615", "i32": -7,
        "isOn": true, "raw": "AP8=", "size": "LARGE", "maybe": 0, "many": ["1", "2"],
        "numbered": {"-5": "five"}, "sizes": {"true": "SMALL"}, "other": "by its JSON name",
        "any": {"@type": "type.googleapis.com/test.v1.Job", "name": "web", "replicas": "3"},
        "duration": "-1.500s", "empty": {}, "mask": "isOn,inner.maybeF64", "structure": {"a": [null, 1.5, {"b": "c"}]},
        "value": null, "list": [true], "time": "2024-02-29T12:00:00.000000001Z",
        "maybeF64": 0.0, "maybeI64": "0", "maybeU64": "7", "maybeBool": false, "maybeText": "", "maybeRaw": "",
    });
    assert_eq!(through(&every), every);
    let packed =
        json!({"any": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1s"}});
    assert_eq!(through(&packed), packed);
}

#[test]
fn other_spellings_of_the_mapping_are_read_and_written_in_one_way() {
    let spelled = json!({"is_on": true, "i64": 5, "i32": "5", "size": 2, "raw": "AP8", "text": "", "f64": "1.5", "u64": 0});
    let written =
        json!({"isOn": true, "i64": "5", "i32": 5, "size": "LARGE", "raw": "AP8=", "f64": 1.5});
    assert_eq!(through(&spelled), written);
}

#[test]
fn what_json_cannot_hold_is_refused_with_its_path() {
    let all = message("test.v1.All");
    let mut deep = DynamicMessage::new(all.clone());
    let mut inner = DynamicMessage::new(all.clone());
    inner.set_field_by_name("f32", Value::F32(f32::NAN));
    deep.set_field_by_name("others", Value::List(vec![Value::Message(inner)]));
    let error = to_json(&deep).unwrap_err().to_string();
    assert!(
        error.starts_with("others[0].f32: NaN is not a JSON number"),
        "{error}"
    );

    let mut wrapped = DynamicMessage::new(all.clone());
    let bytes: &[u8] = &[0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f];
    let double = DynamicMessage::decode(message("google.protobuf.DoubleValue"), bytes).unwrap();
    wrapped.set_field_by_name("maybe_f64", Value::Message(double));
    let error = to_json(&wrapped).unwrap_err().to_string();
    assert!(error.starts_with("maybeF64.value: inf is not"), "{error}");

    let mut nested = DynamicMessage::new(all.clone());
    for _ in 0..2_000 {
        let mut outer = DynamicMessage::new(all.clone());
        outer.set_field_by_name("inner", Value::Message(nested));
        nested = outer;
    }
    assert!(matches!(
        to_json(&nested),
        Err(Error::Canonical(canonical::Error::TooDeep))
    ));
    // Dropping it at once would use much stack.
    while let Some(Value::Message(inner)) = nested.take_field_by_name("inner") {
        nested = inner;
    }
}

#[test]
fn unknown_fields_are_refused_when_written_and_ignored_when_read() {
    // Field 99 at the top, in a nested message, and in a packed one.
    let unknown = [0x98, 0x06, 0x01];
    let all = message("test.v1.All");
    let error = |bytes: &[u8]| {
        let message = DynamicMessage::decode(all.clone(), bytes).unwrap();
        to_json(&message).unwrap_err().to_string()
    };
    assert!(error(&unknown).starts_with("has the unknown field number 99; "));
    let inner = [&[0x9a, 0x01, 3][..], &unknown].concat();
    assert!(error(&inner).starts_with("inner: has the unknown field number 99"));
    let name = b"a/test.v1.Job";
    let any = [&[0x0a, 13][..], name, &[0x12, 3], &unknown].concat();
    let any = [&[0xf2, 0x01, u8::try_from(any.len()).unwrap()][..], &any].concat();
    assert!(
        error(&any).starts_with("any.value: has the unknown field number 99"),
        "{}",
        error(&any)
    );
    let foreign = [&[0xf2, 0x01, 5, 0x0a, 3][..], b"a/X"].concat();
    assert!(error(&foreign).contains("its descriptor is missing"));

    let newer = r#"{"text":"a","later":{"x":[1]},"inner":{"laterToo":1},"size":"HUGE"}"#;
    let read = from_json(&all, newer).unwrap();
    assert_eq!(to_json(&read).unwrap(), r#"{"inner":{},"text":"a"}"#);
    assert!(check(&all, newer).is_err());
    check(&all, r#"{"inner":{},"text":"a"}"#).unwrap();
    let error = from_json(&all, "{\"text\":\n 1}").unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("line 2"), "{cause}");
}

#[test]
fn messages_are_payloads_and_addons_of_assets() {
    let job = from_json(&message("test.v1.Job"), r#"{"name":"web","replicas":"3"}"#).unwrap();
    let builder = Asset::builder(AssetId::new("jobs/web").unwrap());
    let asset = builder
        .payload_dynamic(&job)
        .unwrap()
        .addon_dynamic(&job)
        .unwrap()
        .build()
        .unwrap();
    assert_eq!(asset.type_str(), "test.v1.Job");
    assert_eq!(asset.payload_json(), r#"{"name":"web","replicas":"3"}"#);
    assert_eq!(asset.payload_dynamic(&job.descriptor()).unwrap(), job);
    assert_eq!(
        asset.addon_dynamic(&job.descriptor()).unwrap(),
        Some(job.clone())
    );
    assert_eq!(asset.addon_dynamic(&message("test.v1.All")).unwrap(), None);
    assert!(matches!(
        asset.payload_dynamic(&message("test.v1.All")),
        Err(Error::Type { .. })
    ));
    let twice = Asset::builder(asset.id())
        .addon_dynamic(&job)
        .unwrap()
        .addon_dynamic(&job);
    assert!(twice.is_err());
    let unnamed = compile("syntax = \"proto3\"; message Job {}")
        .get_message_by_name("Job")
        .unwrap();
    let refused = Asset::builder(asset.id()).payload_dynamic(&DynamicMessage::new(unnamed));
    assert!(matches!(refused, Err(crate::asset::Error::Type { .. })));
}

/// What prost and prost-reflect generate for `Job` and `Job.Nested`.
macro_rules! generated {
    ($type:ident, $package:literal, $full:literal, $($field:tt)*) => {
        #[derive(Clone, PartialEq, prost::Message)]
        struct $type { $($field)* }
        impl prost::Name for $type {
            const NAME: &'static str = stringify!($type);
            const PACKAGE: &'static str = $package;
        }
        impl ReflectMessage for $type {
            fn descriptor(&self) -> MessageDescriptor {
                message($full)
            }
        }
    };
}
generated!(Job, "test.v1", "test.v1.Job", #[prost(string, tag = "1")] name: String, #[prost(int64, tag = "2")] replicas: i64);
generated!(Nested, "test.v1", "test.v1.Job.Nested", #[prost(string, tag = "1")] name: String);

#[test]
fn generated_messages_are_typed_payloads() {
    assert_eq!(Proto::<Job>::TYPE, "test.v1.Job");
    let job = Proto(Job {
        name: "web".into(),
        replicas: 1 << 60,
    });
    let builder = Asset::builder(AssetId::new("jobs/web").unwrap());
    let asset = builder.payload(&job).unwrap().build().unwrap();
    assert_eq!(
        asset.payload_json(),
        r#"{"name":"web","replicas":"1152921504606846976"}"#
    );
    assert_eq!(asset.payload::<Proto<Job>>().unwrap(), job);
    let newer: Proto<Job> = serde_json::from_str(r#"{"later": [1], "name": "web"}"#).unwrap();
    assert_eq!(newer.0.name, "web");

    let nested = Asset::builder(asset.id()).payload(&Proto(Nested::default()));
    let error = std::error::Error::source(&nested.unwrap_err())
        .unwrap()
        .to_string();
    assert!(
        error.contains("`test.v1.Job.Nested`") && error.contains("not nested"),
        "{error}"
    );
}
