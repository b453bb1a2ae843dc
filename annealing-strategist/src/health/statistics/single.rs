//! A single look: the test of Mann and Whitney, with an interval for the size of the shift.

use statrs::distribution::{ContinuousCDF, Normal};

/// Minimum number of samples on each side.
const LEAST: usize = 5;
/// Maximum number of samples on each side: their differences are sorted.
const MOST: usize = 2_000;
/// The shift has to be at least this part of its estimate at the end of the interval that is nearer to 0.
const CLEAR: f64 = 0.25;

/// Two sides of samples compared with each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The statistic: pairs in which the moved sample is larger, and half of those that are equal.
    pub u: f64,
    /// The chance of a difference at least as large if both sides are alike: two-sided, by the normal distribution, corrected for
    /// ties and for continuity.
    pub p: f64,
    /// The chance that a moved sample is larger than a control sample.
    pub larger: f64,
    /// By how much moved samples are larger than control samples.
    pub shift: Shift,
    /// The verdict on the shift, with the given confidence.
    pub side: Side,
}

/// The size of a shift, with its confidence interval. It has the unit of the samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Place of the lower end among the sorted differences, from 1. 0: there are too few samples for an interval.
    pub k: usize,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
    /// The median of all differences between a moved and a control sample.
    pub estimate: f64,
}

/// Whether moved samples differ from control samples, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Moved samples are clearly larger.
    High,
    /// Moved samples are clearly smaller.
    Low,
    /// No difference between the sides is seen.
    Same,
    /// A difference is seen, and its size is not clear. It is no pass.
    Unclear,
}

/// The reason why two sides cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooFew {
    /// A side has too few samples.
    #[error("{0} samples on one side, and at least 5 are needed")]
    Samples(usize),
    /// A side has too many samples.
    #[error("{0} samples on one side, and at most 2,000 are compared; use longer windows")]
    Many(usize),
    /// A sample is not a finite number.
    #[error("a sample is not a number")]
    NotANumber,
}

/// Compares moved samples with control samples, with a confidence between 0 and 1, such as 0.98. For a single look: of repeated
/// looks at growing samples, most raise a false alarm in the end.
///
/// # Errors
/// If a side has fewer than 5 or more than 2,000 samples, or one that is not a finite number: the verdict is unknown.
pub fn compare(moved: &[f64], control: &[f64], confidence: f64) -> Result<Comparison, TooFew> {
    for side in [moved, control] {
        match side.len() {
            many if many < LEAST => return Err(TooFew::Samples(many)),
            many if many > MOST => return Err(TooFew::Many(many)),
            _ if side.iter().any(|it| !it.is_finite()) => return Err(TooFew::NotANumber),
            _ => {}
        }
    }
    let (m, n) = (moved.len() as f64, control.len() as f64);
    let mut differences: Vec<f64> = moved
        .iter()
        .flat_map(|one| control.iter().map(move |other| one - other))
        .collect();
    differences.sort_by(f64::total_cmp);
    let larger = differences.iter().filter(|it| **it > 0.0).count() as f64;
    let equal = differences.iter().filter(|it| **it == 0.0).count() as f64;
    let u = larger + equal / 2.0;
    let p = p_two_sided(u, (m, n), ties(moved, control));
    let shift = shift(&differences, (m, n), confidence);
    Ok(Comparison {
        u,
        p,
        larger: u / (m * n),
        side: side(p, &shift, confidence),
        shift,
    })
}

fn side(p: f64, shift: &Shift, confidence: f64) -> Side {
    let clear = CLEAR * shift.estimate.abs();
    match () {
        () if p >= 1.0 - confidence => Side::Same,
        () if shift.k == 0 => Side::Unclear,
        () if shift.lower > clear => Side::High,
        () if shift.upper < -clear => Side::Low,
        () => Side::Unclear,
    }
}

/// The sum of `t^3 - t` over all groups of `t` equal samples.
fn ties(moved: &[f64], control: &[f64]) -> f64 {
    let mut all: Vec<f64> = moved.iter().chain(control).copied().collect();
    all.sort_by(f64::total_cmp);
    let groups = all.chunk_by(|one, other| one == other);
    let of = |group: &[f64]| (group.len() as f64).powi(3) - group.len() as f64;
    groups.map(of).sum()
}

fn p_two_sided(u: f64, (m, n): (f64, f64), ties: f64) -> f64 {
    let all = m + n;
    let variance = m * n / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    let away = (u - m * n / 2.0).abs() - 0.5;
    if variance <= 0.0 || away <= 0.0 {
        return 1.0;
    }
    (2.0 * Normal::standard().sf(away / variance.sqrt())).min(1.0)
}

/// The interval by order statistics of the sorted differences: it does not depend on their scale.
fn shift(differences: &[f64], (m, n): (f64, f64), confidence: f64) -> Shift {
    let z = Normal::standard().inverse_cdf(f64::midpoint(1.0, confidence));
    let k = m * n / 2.0 - z * (m * n * (m + n + 1.0) / 12.0).sqrt();
    let k = if k >= 1.0 { k.floor() as usize } else { 0 };
    let all = differences.len();
    let at = |place: usize| differences.get(place).copied().unwrap_or(f64::NAN);
    let (lower, upper) = match k {
        0 => (f64::NEG_INFINITY, f64::INFINITY),
        k => (at(k - 1), at(all - k)),
    };
    Shift {
        k,
        lower,
        upper,
        estimate: f64::midpoint(at((all - 1) / 2), at(all / 2)),
    }
}
