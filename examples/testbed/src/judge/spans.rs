//! How long changes took, by the journals of the cells, and how many overlapped.

use std::collections::BTreeMap;

use super::{
    broken::{Held, broken},
    evidence::{Mark, since},
};
use crate::{
    place::Place,
    production::api::{Change, Line},
};

/// Time from the change of a wanted state until it was reached, in microseconds since 1970.
pub type Span = (u64, u64);

/// Returns the time span since `mark` in which each cluster's `resource`, `jobs/` or `balancer`, was changing.
///
/// # Errors
/// When a journal cannot be read, or a cluster has no such change.
pub fn spans(
    place: &Place,
    mark: &Mark,
    clusters: &[String],
    resource: &str,
) -> Held<BTreeMap<String, Span>> {
    let mut journals = since(place, mark)?;
    let span = |cluster: &String| {
        let mut lines: Vec<Line> = journals.remove(cluster).unwrap_or_default();
        lines.retain(|line| line.resource.starts_with(resource));
        let asked = lines.iter().find(|line| line.change == Change::Spec);
        match (asked, lines.last()) {
            (Some(asked), Some(last)) => Ok((cluster.clone(), (asked.at_micros, last.at_micros))),
            _ => broken(format_args!("{cluster} has no change of {resource}")),
        }
    };
    clusters.iter().map(span).collect()
}

/// Returns the maximum number of spans that overlap at the same time.
pub fn at_once(spans: impl Iterator<Item = Span> + Clone) -> usize {
    let during = |at: u64| {
        spans
            .clone()
            .filter(move |(from, to)| *from <= at && at <= *to)
    };
    let beginnings = spans.clone().map(|(from, _)| from);
    beginnings.map(|at| during(at).count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_spans_are_counted() {
        let most = |spans: &[Span]| at_once(spans.iter().copied());
        assert_eq!(most(&[(1, 3), (4, 6), (7, 8)]), 1);
        assert_eq!(most(&[(1, 4), (4, 6), (5, 8)]), 2);
        assert_eq!(most(&[(1, 9), (4, 6), (5, 8)]), 3);
        assert_eq!(most(&[]), 0);
    }
}
