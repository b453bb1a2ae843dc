//! R105: worked cases, and laws over random values.

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

const CASES: &str = include_str!("../../../tests/data/health.json");

#[derive(Deserialize)]
struct Cases {
    mann_whitney: Vec<Single>,
    rank_martingale: Vec<Looks>,
}

#[derive(Deserialize)]
struct Single {
    name: String,
    canary: Vec<f64>,
    control: Vec<f64>,
    u: f64,
    p_two_sided: f64,
    cles: f64,
    confidence: f64,
    shift: ShiftCase,
    verdict: String,
}

#[derive(Deserialize)]
struct ShiftCase {
    k: usize,
    lower: f64,
    upper: f64,
    estimate: f64,
}

#[derive(Deserialize)]
struct Looks {
    name: String,
    alpha: f64,
    guard: f64,
    windows: Vec<WindowCase>,
    ratio_of_means: Option<f64>,
    alarm: bool,
}

#[derive(Deserialize)]
struct WindowCase {
    canary: Option<f64>,
    control: Vec<Option<f64>>,
    u: f64,
    p: f64,
    e: f64,
}

fn cases() -> Cases {
    serde_json::from_str(CASES).unwrap()
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1e-300)
}

#[test]
fn r105_worked_cases_of_the_rank_martingale() {
    for case in cases().rank_martingale {
        let (mut evidence, mut alarm) = (Martingale::default(), false);
        for (at, window) in case.windows.iter().enumerate() {
            let p = p_value(window.canary, &window.control, window.u);
            evidence.add(p);
            assert!(
                near(p, window.p),
                "{} {at}: {p}, not {}",
                case.name,
                window.p
            );
            let e = evidence.value();
            assert!(
                near(e, window.e),
                "{} {at}: {e}, not {}",
                case.name,
                window.e
            );
            let so_far = case.windows[..=at].iter();
            let ratio = ratio_of_means(so_far.map(|it| (it.canary, &*it.control)));
            alarm |= e >= 1.0 / case.alpha && ratio.is_some_and(|it| it >= case.guard);
        }
        let all = case.windows.iter().map(|it| (it.canary, &*it.control));
        let ratio = ratio_of_means(all).filter(|it| it.is_finite());
        let same = match (ratio, case.ratio_of_means) {
            (Some(one), Some(other)) => near(one, other),
            (one, other) => one == other,
        };
        assert!(
            same,
            "{}: {ratio:?}, not {:?}",
            case.name, case.ratio_of_means
        );
        assert_eq!(alarm, case.alarm, "{}", case.name);
    }
}

#[test]
fn worked_cases_of_a_single_look() {
    for case in cases().mann_whitney {
        let found = compare(&case.canary, &case.control, case.confidence).unwrap();
        let Shift {
            k,
            lower,
            upper,
            estimate,
        } = found.shift;
        assert_eq!((&case.name, k), (&case.name, case.shift.k));
        let numbers = [
            (found.u, case.u),
            (found.p, case.p_two_sided),
            (found.larger, case.cles),
            (lower, case.shift.lower),
            (upper, case.shift.upper),
            (estimate, case.shift.estimate),
        ];
        for (one, other) in numbers {
            assert!(
                (one - other).abs() <= 1e-6 * other.abs(),
                "{}: {one}, not {other}",
                case.name
            );
        }
        let verdict = match found.side {
            Side::High => "high",
            Side::Low => "low",
            Side::Same => "pass",
            Side::Unclear => "unknown",
        };
        assert_eq!((&case.name, verdict), (&case.name, &*case.verdict));
    }
}

#[test]
fn r105_healthy_needs_as_many_windows_as_an_alarm() {
    let windows = [9, 2, 1, 0].map(|controls| windows_for(controls, 20.0));
    assert_eq!(windows, [Some(4), Some(12), Some(25), None]);
}

#[test]
fn r105_missing_values_count_against_an_alarm() {
    let control = [Some(1.0), None, Some(f64::NAN)];
    assert_eq!(p_value(None, &control, 0.5), 1.0);
    assert_eq!(p_value(Some(f64::NAN), &control, 0.5), 1.0);
    assert_eq!(p_value(Some(5.0), &[], 0.5), 1.0);
    assert_eq!(
        p_value(Some(5.0), &control, 0.5),
        2.5 / 4.0,
        "two silent ones rank above"
    );
}

#[test]
fn r105_stages_are_weighted_the_last_two_alike() {
    assert_eq!(combined(&[]), 1.0);
    assert_eq!(combined(&[vec![40.0, 0.0]]), 20.0);
    assert_eq!(combined(&[vec![40.0], vec![]]), 20.5);
    assert_eq!(combined(&[vec![40.0], vec![8.0], vec![4.0]]), 23.0);
}

#[test]
fn samples_that_cannot_be_compared_are_refused() {
    let few = compare(&[1.0; 4], &[1.0; 9], 0.98).unwrap_err();
    assert_eq!(few, TooFew::Samples(4));
    let odd = compare(&[1.0, 2.0, 3.0, 4.0, f64::NAN], &[1.0; 9], 0.98).unwrap_err();
    assert_eq!(odd, TooFew::NotANumber);
    let same = compare(&[7.0; 9], &[7.0; 9], 0.98).unwrap();
    assert_eq!((same.p, same.side), (1.0, Side::Same), "constant values");
    let least = compare(&[9.0; 5], &[1.0; 5], 0.98).unwrap();
    assert_ne!(least.side, Side::Same);
}

#[test]
fn r105_levelled_shares_have_the_chances_of_drawing_without_putting_back() {
    let units = [
        Some(Share {
            part: 30,
            whole: 300,
        }),
        Some(Share { part: 2, whole: 20 }),
        Some(Share { part: 1, whole: 19 }),
        None,
    ];
    let runs = 20_000;
    let mut counts = [0_u32; 21];
    for run in 0..runs {
        let levels = levelled(&units, format!("run {run}").as_bytes());
        assert_eq!((levels[1], levels[2], levels[3]), (Some(0.1), None, None));
        counts[(levels[0].unwrap() * 20.0).round() as usize] += 1;
    }
    // 20 of 300 events, 30 of them bad: the chances of 0, 1, 2 and 3 bad ones.
    let chances = [0.1140, 0.2706, 0.2937, 0.1936];
    for (bad, chance) in chances.into_iter().enumerate() {
        let share = f64::from(counts[bad]) / f64::from(runs);
        assert!(
            (share - chance).abs() < 0.012,
            "{bad} bad: {share}, not {chance}"
        );
    }
    assert_eq!(
        levelled(&units, b"x"),
        levelled(&units, b"x"),
        "it can be reproduced"
    );
}

#[test]
fn r105_slow_noise_of_units_is_seen_before_they_are_judged() {
    let noise = |unit: usize, window: usize| uniform(format!("{unit} {window}").as_bytes());
    let windows = |slow: f64| -> Vec<Vec<Option<f64>>> {
        let mut values = [0.0; 10];
        let next = |window| {
            for (unit, value) in values.iter_mut().enumerate() {
                *value = slow * *value + noise(unit, window) - 0.5;
            }
            values.iter().copied().map(Some).collect()
        };
        (0..240).map(next).collect()
    };
    let (fast, slow) = (
        lag_one(&windows(0.0)).unwrap(),
        lag_one(&windows(0.8)).unwrap(),
    );
    assert!(fast.abs() < 0.1 && slow > 0.6, "{fast} {slow}");
    assert_eq!(
        lag_one(&vec![vec![Some(1.0); 10]; 240]),
        Some(0.0),
        "constant"
    );
    assert_eq!(lag_one(&[vec![Some(1.0)]]), None);
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(
        prop_oneof![0.0..1e3_f64, (0..5_u8).prop_map(f64::from)],
        5..12,
    )
}

proptest! {
    #[test]
    fn verdicts_do_not_depend_on_the_unit(
        moved in values(), control in values(), power in -9..=9_i32, u in 0.0..1.0_f64,
    ) {
        let by = 2_f64.powi(power * 3);
        let scaled = |side: &[f64]| side.iter().map(|it| it * by).collect::<Vec<f64>>();
        let some = |side: &[f64]| side.iter().copied().map(Some).collect::<Vec<_>>();
        let p = p_value(Some(moved[0]), &some(&control), u);
        prop_assert_eq!(p, p_value(Some(moved[0] * by), &some(&scaled(&control)), u));
        let (one, other) = (
            compare(&moved, &control, 0.98).unwrap(),
            compare(&scaled(&moved), &scaled(&control), 0.98).unwrap(),
        );
        prop_assert_eq!((one.u, one.p, one.side), (other.u, other.p, other.side));
    }
}

#[test]
fn r105_rank_among_exchangeable_units_is_no_evidence_on_average() {
    for windows in [0, 1, 5, 40] {
        let mut before = Martingale::default();
        for _ in 0..windows {
            before.add(0.3);
        }
        // The mean over all p of the next window is at most 1; the rest of it is near p = 0.
        let many = 50_000_u32;
        let next = (0..many).map(|nth| {
            let mut after = before;
            after.add((f64::from(nth) + 0.5) / f64::from(many));
            after.value()
        });
        let mean = next.sum::<f64>() / f64::from(many) / before.value();
        assert!(mean > 0.9 && mean < 1.001, "{windows}: {mean}");
    }
}
