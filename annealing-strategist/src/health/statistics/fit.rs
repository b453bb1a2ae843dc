//! Whether units differ for longer than a window.

/// The correlation of the ranks of units with their ranks in the window before, about the middle, over all units: near 0 if the
/// units are exchangeable in each window given the past, and near 1 if a unit is worse than the others for many windows. `windows`
/// has the values of all units, in the same order each time. `None`: no unit has values in two windows one after the other.
pub fn lag_one(windows: &[Vec<Option<f64>>]) -> Option<f64> {
    let ranks: Vec<Vec<Option<f64>>> = windows.iter().map(|it| centred(it)).collect();
    let (mut product, mut square, mut pairs) = (0.0, 0.0, 0_u32);
    for pair in ranks.windows(2) {
        for (before, after) in pair[0].iter().zip(&pair[1]) {
            if let (Some(before), Some(after)) = (before, after) {
                product += before * after;
                square += (before * before + after * after) / 2.0;
                pairs += 1;
            }
        }
    }
    match square {
        _ if pairs == 0 => None,
        // All units have the same value in each window.
        0.0 => Some(0.0),
        square => Some(product / square),
    }
}

/// The ranks of values about the middle, between -1/2 and 1/2. Equal values share their ranks.
fn centred(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let there = || values.iter().flatten().filter(|it| !it.is_nan());
    let all = there().count() as f64;
    let rank = |value: f64| {
        let below = there().filter(|it| **it < value).count() as f64;
        let equal = there().filter(|it| **it == value).count() as f64;
        (below + equal / 2.0) / all - 0.5
    };
    let of = |value: &Option<f64>| value.filter(|it| !it.is_nan()).map(rank);
    values.iter().map(of).collect()
}
