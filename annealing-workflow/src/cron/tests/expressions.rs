//! Expressions: what is read, and what is refused with which words.

use super::{all, at, slots};
use crate::cron::Slots;

fn refused(cron: &str) -> String {
    Slots::new(cron, None).unwrap_err().to_string()
}

/// Expressions that are refused, each with the problem that is told.
const PROBLEMS: [(&str, &str); 16] = [
    (
        "60 * * * *",
        "character 1, in the minute: `60` is no value; values are 0 to 59",
    ),
    (
        "0  1,x * * *",
        "character 6, in the hour: `x` is no value; values are 0 to 23",
    ),
    (
        "0 0 0 * *",
        "character 5, in the day of the month: `0` is no value; values are 1 to 31",
    ),
    (
        "0 0 * foo *",
        "character 7, in the month: `foo` is no value; values are 1 to 12, or JAN to DEC",
    ),
    (
        "0 0 * * 8",
        "character 9, in the day of the week: `8` is no value; values are 0 to 7, or SUN to SAT",
    ),
    (
        "0 0 L * *",
        "character 5, in the day of the month: `L`: `L`, `W`, `#` and `?` are not supported; values are 1 to 31",
    ),
    (
        "5-1 * * * *",
        "character 1, in the minute: the range `5-1` ends before it begins; write two ranges, such as `5-59,0-1`",
    ),
    (
        "0 0 * * FRI-MON",
        "character 9, in the day of the week: the range `FRI-MON` ends before it begins; write two ranges, such as `FRI-SAT,SUN-MON`",
    ),
    (
        "*/0 * * * *",
        "character 3, in the minute: a step is 1 or more",
    ),
    (
        "*/90 * * * *",
        "character 3, in the minute: the step `90` leads out of `*` at once; write `0`, or a smaller step",
    ),
    (
        "*/x * * * *",
        "character 3, in the minute: `x` is no step; write a number, such as `*/5`",
    ),
    (
        "5/15 * * * *",
        "character 1, in the minute: a step needs a range; write `5-59/15`, or `*/15`",
    ),
    (
        "1,,2 * * * *",
        "character 3, in the minute: a value is missing; values are 0 to 59",
    ),
    (
        "1- * * * *",
        "character 3, in the minute: a value is missing; values are 0 to 59",
    ),
    (
        "+1 * * * *",
        "character 1, in the minute: `+1` is no value; values are 0 to 59",
    ),
    (
        "0 ü * * *",
        "character 3, in the hour: `ü` is no value; values are 0 to 23",
    ),
];

#[test]
fn problem_of_an_expression_names_field_and_position() {
    for (cron, problem) in PROBLEMS {
        assert_eq!(
            refused(cron),
            format!("cron expression `{cron}`, {problem}")
        );
    }
}

#[test]
fn expression_without_five_fields_is_refused() {
    let fields = "the fields are `minute hour day month weekday`";
    let cases = [
        ("", "it has 0 fields"),
        ("0 0 * *", "it has 4 fields"),
        (
            "0 0 0 * * *",
            "it has 6 fields (there are no seconds or years)",
        ),
        ("@daily", "nicknames are not supported"),
    ];
    for (cron, problem) in cases {
        assert_eq!(
            refused(cron),
            format!("cron expression `{cron}`: {problem}; {fields}")
        );
    }
}

#[test]
fn r37_expression_that_never_fires_is_refused() {
    for cron in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30-31 FEB */2"] {
        assert!(refused(cron).contains("never fires"), "{cron}");
    }
    for cron in [
        "0 0 29 2 *",
        "0 0 29 2 */6",
        "0 0 30 2 MON",
        "0 0 31 2,3 *",
        "0 0 */30 2 1",
    ] {
        let fires = Slots::new(cron, None).map(|slots| slots.next(at("2026-01-01T00:00Z")));
        assert!(fires.unwrap().is_some(), "{cron}");
    }
}

#[test]
fn unknown_zone_is_refused_with_a_hint() {
    let refused = |zone| Slots::new("0 0 * * *", Some(zone)).unwrap_err().to_string();
    assert_eq!(
        refused("zurich"),
        "there is no time zone `zurich`; did you mean `Europe/Zurich`?"
    );
    assert_eq!(
        refused("Europe/New York"),
        "there is no time zone `Europe/New York`; did you mean `America/New_York`?"
    );
    assert!(
        refused("CEST")
            .ends_with("use an IANA name such as `Europe/Zurich`, or leave it out for `UTC`")
    );
}

#[test]
fn names_and_both_sundays_are_read() {
    let same = [
        ("0 9 * 1-3 1-5", "0 9 * JAN-mar mon-FRI"),
        ("0 9 * * 0", "0 9 * * 7"),
        ("0 9 * * 5,6,0", "0 9 * * FRI-SUN"),
        ("0 9 * * 5,6,0", "0 9 * * 5-7"),
        ("0 9 * * *", "0\t 9 *  * 0-6 "),
    ];
    let (after, until) = (at("2026-01-01T00:00Z"), at("2026-06-01T00:00Z"));
    for (one, other) in same {
        let of = |cron| all(&slots(cron, "UTC"), after, until);
        assert_eq!(of(one), of(other), "{one} | {other}");
    }
}
