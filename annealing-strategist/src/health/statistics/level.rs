//! Shares of units with unlike traffic, made comparable.

use statrs::function::factorial::ln_binomial;

use super::uniform;

/// Minimum number of events of a unit in a window. With fewer its share counts as missing.
pub const LEAST: u64 = 20;

/// The events of a unit in one window, and those among them that are bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Number of bad events, at most `whole`.
    pub part: u64,
    /// Number of all events, bad and good.
    pub whole: u64,
}

/// Makes the shares of one window comparable: of each unit as many events are drawn, without putting back, as the unit with the
/// fewest has. Otherwise the rank of a unit would depend on its traffic: a small one is more often the worst, or the best.
/// Returns the share among the drawn events. `None`: the unit has no value, or fewer than [`LEAST`] events.
///
/// The draws follow from `seed`, which names the rule and the window, and from the place of the unit.
pub fn levelled(units: &[Option<Share>], seed: &[u8]) -> Vec<Option<f64>> {
    let enough = |share: &Share| share.whole >= LEAST && share.part <= share.whole;
    let there = || units.iter().flatten().filter(|share| enough(share));
    let Some(drawn) = there().map(|share| share.whole).min() else {
        return vec![None; units.len()];
    };
    let level = |(at, share): (usize, &Option<Share>)| {
        let share = share.filter(enough)?;
        let seed = [seed, &at.to_be_bytes()].concat();
        Some(draw(share, drawn, uniform(&seed)) as f64 / drawn as f64)
    };
    units.iter().enumerate().map(level).collect()
}

/// Draws `drawn` of the events of `share` without putting back, and returns the number of bad ones: the outcomes are tried from
/// the most likely one outwards, until their chances add up to `u`.
fn draw(share: Share, drawn: u64, u: f64) -> u64 {
    let Share { part, whole } = share;
    let most = part.min(drawn);
    let least = (drawn + part).saturating_sub(whole);
    let good = whole - part;
    let log = |bad: u64| ln_binomial(part, bad) + ln_binomial(good, drawn - bad);
    let all = ln_binomial(whole, drawn);
    let mode = (u128::from(drawn + 1) * u128::from(part + 1) / u128::from(whole + 2)) as u64;
    let mode = mode.clamp(least, most);
    let chance = |bad: u64| (log(bad) - all).exp();
    let (mut below, mut above) = (mode, mode);
    let mut left = u - chance(mode);
    let mut last = mode;
    while left > 0.0 && (below > least || above < most) {
        if above < most {
            above += 1;
            last = above;
            left -= chance(above);
        }
        if left > 0.0 && below > least {
            below -= 1;
            last = below;
            left -= chance(below);
        }
    }
    last
}
