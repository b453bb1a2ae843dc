//! The worlds of the study: how the values of units come about.

use rand::{Rng, RngExt, rngs::SmallRng};
use rand_distr::{Beta, Binomial, Distribution, LogNormal, Normal, Poisson};

use crate::Error;

/// Mean number of errors of a unit in a window, unless a case says otherwise.
const ERRORS: f64 = 5.0;
/// Number of windows of a day.
const DAY: f64 = 1_440.0;

/// One line of the table.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Number of units that have not moved.
    pub(crate) controls: usize,
    pub(crate) world: World,
    /// Whether units are compared with their own past.
    pub(crate) than_past: bool,
    /// Whether some of the units to compare with come and go.
    pub(crate) churn: bool,
    /// The look in whose window a fault begins. 0: with the rollout.
    pub(crate) fault: u32,
}

/// How the values of units come about.
#[derive(Clone, Copy)]
pub(crate) enum World {
    /// Numbers of errors around a mean.
    Errors(f64),
    /// Errors that come in bursts of 20.
    Bursts,
    /// Errors whose mean changes slowly for all units together.
    SharedLoad,
    /// Errors whose mean follows the time of day, for all units together.
    Daily,
    /// One value in twenty is missing.
    Missing,
    /// Units that have not moved lose values above 1.5 times the mean.
    BadFallSilent,
    /// The 95th percentile of so many requests, of the moved unit and of the others.
    Quantile(u32, u32),
    /// The share of errors among requests; the moved unit has a tenth of the requests.
    Shares,
    /// Units of different size, by a log-normal factor.
    Unlike(f64),
    /// Errors whose mean changes slowly for each unit by itself, with this deviation.
    OwnNoise(f64),
    /// The moved unit has twice the traffic, and its errors are counted.
    TwiceTheTraffic,
    /// Each unit has another time of day.
    OutOfPhase,
}

/// The values of one unit: of the quantity, and of all events if it is a share.
pub(crate) type Line = Vec<(Option<f64>, f64)>;

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    use World::{
        BadFallSilent, Bursts, Daily, Errors, Missing, OutOfPhase, OwnNoise, Quantile, SharedLoad,
        Shares, TwiceTheTraffic, Unlike,
    };
    let case = |name, controls, world| Case {
        name,
        controls,
        world,
        than_past: false,
        churn: false,
        fault: 0,
    };
    let past = |name, world| Case {
        than_past: true,
        ..case(name, 9, world)
    };
    vec![
        case("equal units, 0.05 errors", 9, Errors(0.05)),
        case("equal units, 0.5 errors", 9, Errors(0.5)),
        case("equal units, 5 errors", 9, Errors(ERRORS)),
        Case {
            fault: 500,
            ..case(
                "equal units, 5 errors, a fault in window 500",
                9,
                Errors(ERRORS),
            )
        },
        case("1 among 3, 0.5 errors", 2, Errors(0.5)),
        case("1 among 3, 5 errors", 2, Errors(ERRORS)),
        case("1 among 2, 5 errors", 1, Errors(ERRORS)),
        case("bursts of 20", 9, Bursts),
        case("shared load, AR(1) 0.8", 9, SharedLoad),
        case("same daily load", 9, Daily),
        Case {
            churn: true,
            ..case("others join and leave, 1 stays", 9, Errors(ERRORS))
        },
        case("5% missing", 9, Missing),
        case("bad others fall silent", 9, BadFallSilent),
        case("p95 of 1,000 requests", 9, Quantile(1_000, 1_000)),
        case("p95 of 20 requests", 9, Quantile(20, 20)),
        case("p95, 100 beside 200 requests", 9, Quantile(100, 200)),
        case("shares, a tenth of the traffic", 9, Shares),
        past("unlike units 0.3, own past", Unlike(0.3)),
        past("unlike units 1.0, own past", Unlike(1.0)),
        case("unlike units 0.3, as they are", 9, Unlike(0.3)),
        case("own noise AR(1) 0.8, sd 0.1", 9, OwnNoise(0.1)),
        case("own noise AR(1) 0.8, sd 0.3", 9, OwnNoise(0.3)),
        case("own noise AR(1) 0.8, sd 1", 9, OwnNoise(1.0)),
        case("counts, twice the traffic", 9, TwiceTheTraffic),
        case("zones out of phase", 9, OutOfPhase),
    ]
}

impl World {
    /// Whether the quantity is a share.
    pub(crate) fn is_share(self) -> bool {
        matches!(self, Self::Shares)
    }

    /// The values of all units, the moved one first, in so many windows. Those of the moved one are `times` as bad from window
    /// `from` on.
    pub(crate) fn lines(
        self,
        (units, windows): (usize, usize),
        (times, from): (f64, usize),
        rng: &mut SmallRng,
    ) -> Result<Vec<Line>, Error> {
        let size = LogNormal::new(0.0, self.deviation())?;
        let sizes: Vec<f64> = (0..units).map(|_| size.sample(rng)).collect();
        let mut lines = vec![Line::with_capacity(windows); units];
        let mut own = vec![0.0; units + 1];
        for at in 0..windows {
            for state in &mut own {
                let step: f64 = Normal::new(0.0, 0.6)?.sample(rng);
                *state = 0.8 * *state + step;
            }
            for (unit, line) in lines.iter_mut().enumerate() {
                let times = if unit == 0 && at >= from { times } else { 1.0 };
                let state = (own[unit], own[units]);
                line.push(self.value((unit, at), sizes[unit], state, times, rng)?);
            }
        }
        Ok(lines)
    }

    fn deviation(self) -> f64 {
        match self {
            Self::Unlike(deviation) => deviation,
            _ => 0.0,
        }
    }

    /// The value of a unit in a window. `noise`: its own slow noise, and that of all.
    fn value(
        self,
        (unit, at): (usize, usize),
        size: f64,
        (own, shared): (f64, f64),
        times: f64,
        rng: &mut SmallRng,
    ) -> Result<(Option<f64>, f64), Error> {
        let day =
            |phase: f64| 1.0 + 0.8 * (std::f64::consts::TAU * (at as f64 / DAY + phase)).sin();
        let count = |mean: f64, rng: &mut SmallRng| errors(times * mean, rng);
        let value = match self {
            Self::Errors(mean) => count(mean, rng)?,
            Self::Bursts => 20.0 * count(ERRORS / 20.0, rng)?,
            Self::SharedLoad => count(ERRORS * (0.5 * shared).exp(), rng)?,
            Self::Daily => count(ERRORS * day(0.0), rng)?,
            Self::OutOfPhase => count(ERRORS * day(unit as f64 / 10.0), rng)?,
            Self::TwiceTheTraffic if unit == 0 => count(2.0 * ERRORS, rng)?,
            Self::TwiceTheTraffic => count(ERRORS, rng)?,
            Self::Missing => {
                let value = count(ERRORS, rng)?;
                return Ok(((rng.random::<f64>() >= 0.05).then_some(value), 0.0));
            }
            Self::BadFallSilent => {
                let value = count(ERRORS, rng)?;
                let is_silent = unit > 0 && value > 1.5 * ERRORS;
                return Ok(((!is_silent).then_some(value), 0.0));
            }
            Self::Quantile(moved, others) => {
                let requests = if unit == 0 { moved } else { others };
                times * quantile(requests, rng)?
            }
            Self::Shares => {
                let all = if unit == 0 { 100 } else { 1_000 };
                let bad = Binomial::new(all, (0.05 * times).min(1.0))?.sample(rng);
                return Ok((Some(bad as f64), all as f64));
            }
            Self::Unlike(_) => {
                let noise: f64 = Normal::new(0.0, 0.1)?.sample(rng);
                times * size * noise.exp()
            }
            Self::OwnNoise(deviation) => count(ERRORS * (deviation * own).exp(), rng)?,
        };
        Ok((Some(value), 0.0))
    }
}

fn errors(mean: f64, rng: &mut impl Rng) -> Result<f64, Error> {
    Ok(Poisson::new(mean)?.sample(rng))
}

/// The 95th percentile of the latencies of so many requests, whose latencies are exponential with the mean 1.
fn quantile(requests: u32, rng: &mut impl Rng) -> Result<f64, Error> {
    let rank = (0.95 * f64::from(requests)).ceil();
    let share = Beta::new(rank, f64::from(requests) - rank + 1.0)?.sample(rng);
    Ok(-(1.0 - share).ln())
}
