//! The evidence of all windows together.

/// The exponents over which bets are mixed are multiples of this.
const STEP: f64 = 0.05;
/// Number of exponents: 0.05, 0.10 .. 0.95.
const BETS: u32 = 19;
/// The smallest p-value that counts. A smaller one would be an artefact of the computation.
const LEAST: f64 = 1e-12;
/// Number of last windows in which the size of the effect is measured.
const RECENT: usize = 60;
/// Number of windows within which a unit that is always worst has to raise an alarm: otherwise there are too few control units.
const MOST: u32 = 10_000;

/// The evidence against one moved unit: a test martingale over the p-values of its windows. Without a fault, the chance that
/// its value ever reaches `1 / alpha` is at most `alpha`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Martingale {
    windows: u32,
    /// The sum of the logarithms of all p-values.
    log_p: f64,
}

impl Martingale {
    /// Takes in the p-value of the next window.
    pub fn add(&mut self, p: f64) {
        self.windows += 1;
        self.log_p += p.clamp(LEAST, 1.0).ln();
    }

    /// Number of windows so far.
    pub fn windows(&self) -> u32 {
        self.windows
    }

    /// The evidence: 1 at the beginning, and at most `f64::MAX`.
    pub fn value(&self) -> f64 {
        let bets = (1..=BETS).map(|nth| {
            let kappa = STEP * f64::from(nth);
            (f64::from(self.windows) * kappa.ln() + (kappa - 1.0) * self.log_p).exp()
        });
        let mean = bets.sum::<f64>() / f64::from(BETS);
        mean.min(f64::MAX)
    }
}

/// The evidence against several moved units: the mean within each stage, and the stages weighted 1/2, 1/4 and so on, the last two
/// alike. The weights must not depend on the evidence. A unit that has no window yet counts 1, and so does a stage without units.
pub fn combined(stages: &[Vec<f64>]) -> f64 {
    let mean = |units: &Vec<f64>| match units.len() {
        0 => 1.0,
        many => units.iter().sum::<f64>() / many as f64,
    };
    let (mut sum, mut weight) = (0.0, 1.0);
    for (at, units) in stages.iter().enumerate() {
        let is_last = at + 1 == stages.len();
        weight *= if is_last { 1.0 } else { 0.5 };
        sum += weight * mean(units);
    }
    if stages.is_empty() { 1.0 } else { sum }
}

/// Number of windows in which a unit that is always the worst among `controls` units reaches the evidence `threshold`. A unit
/// that has had as many windows without an alarm would have raised one if it were clearly worse. `None`: there are no control
/// units, or no number of windows is enough.
pub fn windows_for(controls: usize, threshold: f64) -> Option<u32> {
    if controls == 0 {
        return None;
    }
    let worst = (-1.0_f64).exp() / (controls as f64 + 1.0);
    let mut evidence = Martingale::default();
    (1..=MOST).find(|_| {
        evidence.add(worst);
        evidence.value() >= threshold
    })
}

/// The mean of a moved unit's values divided by the mean of its control units' values, over the last 60 of `windows`, each with
/// the value of the moved unit and those of its control units. Infinite if only the moved unit has values above 0. `None`: there
/// are no values, or all of them are 0.
pub fn ratio_of_means<'a>(
    windows: impl DoubleEndedIterator<Item = (Option<f64>, &'a [Option<f64>])>,
) -> Option<f64> {
    let (mut moved, mut control) = (Mean::default(), Mean::default());
    for (value, others) in windows.rev().take(RECENT) {
        moved.add(value);
        others.iter().for_each(|other| control.add(*other));
    }
    let (moved, control) = (moved.value()?, control.value()?);
    if control == 0.0 {
        return (moved > 0.0).then_some(f64::INFINITY);
    }
    Some(moved / control)
}

#[derive(Default)]
struct Mean {
    sum: f64,
    many: u32,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value.filter(|it| it.is_finite()) {
            self.sum += value;
            self.many += 1;
        }
    }

    fn value(&self) -> Option<f64> {
        (self.many > 0).then(|| self.sum / f64::from(self.many))
    }
}
