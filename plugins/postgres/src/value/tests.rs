//! Values that are read, and values that are refused.

use proptest::prelude::*;

use super::*;

fn kind(leaf: Leaf) -> Kind {
    Kind { leaf, array: false }
}

fn read_as(json: &str, leaf: Leaf) -> Result<Value, String> {
    read(json, kind(leaf), 4).map(|node| node.value)
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

#[test]
fn numbers_are_exact_or_a_text_or_an_error() {
    let cases = [
        ("9223372036854775807", Value::Int(i64::MAX)),
        ("18446744073709551615", Value::Uint(u64::MAX)),
        ("18446744073709551616", text("18446744073709551616")),
        ("100000000000000000000", Value::Float(1e20)),
        ("0.10", Value::Float(0.1)),
        ("0.00", Value::Float(0.0)),
        ("-12.50", Value::Float(-12.5)),
        ("0.1000000000000000000001", text("0.1000000000000000000001")),
    ];
    for (written, expected) in cases {
        assert_eq!(
            read_as(written, Leaf::Decimal),
            Ok(expected.clone()),
            "{written}"
        );
        let in_json = read_as(written, Leaf::Json);
        match expected {
            Value::String(_) => assert!(in_json.unwrap_err().contains("store it as a text")),
            number => assert_eq!(in_json, Ok(number)),
        }
    }
}

#[test]
fn what_is_not_finite_is_refused() {
    for (json, leaf) in [
        ("\"NaN\"", Leaf::Float),
        ("\"-Infinity\"", Leaf::Decimal),
        ("\"infinity\"", Leaf::Time),
        ("\"-infinity\"", Leaf::Date),
        ("\"0044-03-15 BC\"", Leaf::Date),
    ] {
        let refused = read_as(json, leaf);
        assert!(
            refused
                .as_ref()
                .is_err_and(|why| why.contains("cast it to text")),
            "{refused:?}"
        );
    }
    let array = Kind {
        leaf: Leaf::Float,
        array: true,
    };
    assert!(read("[1, \"NaN\"]", array, 4).is_err());
}

#[test]
fn times_are_in_utc_and_bytes_in_base64() {
    let time = read_as("\"2024-02-29T12:00:00.5+02:00\"", Leaf::Time);
    assert_eq!(time, Ok(text("2024-02-29T10:00:00.5Z")));
    assert_eq!(
        read_as("\"2024-02-29\"", Leaf::Date),
        Ok(text("2024-02-29"))
    );
    assert_eq!(read_as("\"\\\\x00ff10\"", Leaf::Bytes), Ok(text("AP8Q")));
    assert!(read_as("\"\\\\x0\\\\\"", Leaf::Bytes).is_err());
}

#[test]
fn trees_are_bounded_and_have_no_key_twice() {
    assert!(read_as("[[[[1]]]]", Leaf::Json).is_ok());
    assert!(
        read_as("[[[[[1]]]]]", Leaf::Json)
            .unwrap_err()
            .contains("deeper than 4")
    );
    let twice = read_as("{\"a\": 1, \"b\": 2, \"a\": 3}", Leaf::Json).unwrap_err();
    assert!(twice.contains("`a` appears twice"), "{twice}");
    assert!(
        read_as("{\"a\": 1", Leaf::Json)
            .unwrap_err()
            .contains("byte 7")
    );
}

proptest! {
    #[test]
    fn decimal_numbers_keep_their_value(whole in "-?(0|[1-9][0-9]{0,24})", fraction in "([.][0-9]{1,24})?") {
        let written = format!("{whole}{fraction}");
        let kept = match read_as(&written, Leaf::Decimal).unwrap() {
            Value::Int(int) => int.to_string(),
            Value::Uint(int) => int.to_string(),
            Value::Float(float) => format!("{float:e}"),
            Value::String(text) => text.into(),
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(decimal(&kept), decimal(&written));
    }

    #[test]
    fn every_finite_float_is_read_as_it_is(float in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL) {
        let read = read_as(&format!("{float:e}"), Leaf::Float);
        prop_assert_eq!(read, Ok(Value::Float(float)));
    }
}
