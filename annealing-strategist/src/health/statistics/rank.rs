//! The rank of a moved unit among its control units.

use prodspec_model::Digest;

/// Returns the p-value of a moved unit in one window: the smaller, the worse it is among its control units. `u`, between 0 and
/// 1, decides between equal values: see [`uniform`].
///
/// Values that are missing or not a number count against an alarm: a control unit without a value ranks above the moved one,
/// and a moved unit without one has the p-value 1. So has one without control units: there is nothing to compare it with.
pub fn p_value(moved: Option<f64>, control: &[Option<f64>], u: f64) -> f64 {
    let Some(moved) = moved.filter(|it| !it.is_nan() && !control.is_empty()) else {
        return 1.0;
    };
    let (mut above, mut equal) = (0_u32, 0_u32);
    for value in control {
        match value.filter(|it| !it.is_nan()) {
            Some(value) if value < moved => {}
            Some(value) if value == moved => equal += 1,
            _ => above += 1,
        }
    }
    let all = control.len() as f64 + 1.0;
    (f64::from(above) + u * f64::from(1 + equal)) / all
}

/// A number between 0 and 1 that follows from `seed` alone, so that a verdict can be reproduced. `seed` names the rollout, the
/// rule, the unit and the window, and has all values of the window.
pub fn uniform(seed: &[u8]) -> f64 {
    let bits = Digest::of(seed).0.into_iter().take(8);
    let number = bits.fold(0_u64, |number, byte| (number << 8) | u64::from(byte));
    (number as f64 + 0.5) / 2_f64.powi(64)
}
