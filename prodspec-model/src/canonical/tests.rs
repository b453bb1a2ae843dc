use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::*;

fn text<T: Serialize>(value: &T) -> String {
    String::from_utf8(to_bytes(value).unwrap()).unwrap()
}

#[derive(Serialize)]
enum Shape {
    Unit,
    New(u8),
    Tuple(u8, u8),
    Struct { z: u8, a: u8 },
}

#[test]
fn enums_are_encoded_as_serde_json_encodes_them() {
    assert_eq!(text(&Shape::Unit), r#""Unit""#);
    assert_eq!(text(&Shape::New(1)), r#"{"New":1}"#);
    assert_eq!(text(&Shape::Tuple(1, 2)), r#"{"Tuple":[1,2]}"#);
    assert_eq!(
        text(&Shape::Struct { z: 1, a: 2 }),
        r#"{"Struct":{"a":2,"z":1}}"#
    );
}

#[test]
fn values_without_a_canonical_form_are_refused() {
    #[derive(Serialize)]
    struct Twice {
        a: u8,
        #[serde(flatten)]
        rest: BTreeMap<String, u8>,
    }
    let twice = Twice {
        a: 1,
        rest: [("a".to_owned(), 2)].into(),
    };
    assert_eq!(to_bytes(&twice), Err(Error::DuplicateKey("a".into())));
    assert!(matches!(to_bytes(&f64::INFINITY), Err(Error::NotFinite(_))));
    assert!(matches!(
        to_bytes(&(u128::from(u64::MAX) + 1)),
        Err(Error::TooLarge(_))
    ));
    assert_eq!(to_bytes(&BTreeMap::from([(vec![1], 1)])), Err(Error::Key));
    assert_eq!(
        text(&BTreeMap::from([(10, 1), (9, 2)])),
        r#"{"10":1,"9":2}"#
    );
}

#[test]
fn nesting_beyond_the_maximum_depth_is_refused() {
    let nest = |n| (0..n).fold(json!(1), |inner, _| json!([inner]));
    assert!(to_bytes(&nest(MAX_DEPTH)).is_ok());
    assert_eq!(to_bytes(&nest(MAX_DEPTH + 1)), Err(Error::TooDeep));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300).prop_map(|f: f64| json!(f)),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn canonical_json_round_trips(value in any_json()) {
        let once = to_bytes(&value).unwrap();
        let read: Value = serde_json::from_slice(&once).unwrap();
        prop_assert_eq!(to_bytes(&read).unwrap(), once);
        prop_assert_eq!(read, value);
    }

    #[test]
    fn canonical_json_does_not_depend_on_insertion_order(entries in prop::collection::btree_map("[a-d\"\\\\!]{0,4}", any::<u8>(), 0..8)) {
        struct Backwards(Vec<(String, u8)>);
        impl Serialize for Backwards {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_map(self.0.iter().rev().map(|(k, v)| (k, v)))
            }
        }
        let backwards = Backwards(entries.clone().into_iter().collect());
        prop_assert_eq!(to_bytes(&backwards).unwrap(), to_bytes(&entries).unwrap());
    }
}
