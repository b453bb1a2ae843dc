//! R106: counters as PromQL, so that events count that came before a counter's first scrape.

use plugin_sdk::{Counter, Expression, Quantity};

/// How far before a window samples are looked for. A counter without samples for so long has begun anew; a shorter gap is one of
/// scraping.
const LOOK_BACK: &str = "1h";

/// The text of an expression in PromQL. It may contain `$window`.
pub(super) fn text(expression: &Expression) -> String {
    match &expression.of {
        Quantity::Text(text) => text.clone(),
        Quantity::Counter(counter) => counted(counter, &expression.labels.join(", ")),
    }
}

/// The number of events in a window, by some labels:
/// - the rise of counters that are older than the window, and the value of those that are not;
/// - zero where none of these counters exists, if others of their metric were scraped in the window;
/// - nothing where the metric has no older samples, and nothing where counters exist and were not scraped.
fn counted(counter: &Counter, by: &str) -> String {
    let (all, metric) = (counter.to_string(), &counter.of);
    let sum = |of: &str| format!("sum by ({by}) ({of})");
    let born = format!("{all} unless count_over_time({all}[{LOOK_BACK}] offset $window)");
    let events = sum(&format!("({born}) or increase({all}[$window])"));
    let exist = sum(&format!("count_over_time({all}[{LOOK_BACK}])"));
    let scraped = sum(&format!("count_over_time({metric}[$window])"));
    let older = sum(&format!(
        "count_over_time({metric}[{LOOK_BACK}] offset $window)"
    ));
    format!("({events} or (0 * {scraped} unless {exist})) and {older}")
}

/// Checks the names in a counter, which become parts of the text.
///
/// # Errors
/// The reason why it is none, and how to write it instead.
pub(super) fn check(counter: &Counter) -> Result<(), String> {
    if !is_name(&counter.of, &['_', ':']) {
        return Err(format!(
            "`{}` is no name of a metric: write its name alone, such as http_requests_total",
            counter.of
        ));
    }
    let label = counter.with.keys().find(|label| !is_name(label, &['_']));
    label.map_or(Ok(()), |label| {
        Err(format!("`{label}` is no name of a label"))
    })
}

fn is_name(text: &str, also: &[char]) -> bool {
    let begins = |it: char| it.is_ascii_alphabetic() || also.contains(&it);
    text.starts_with(begins) && text.chars().all(|it| begins(it) || it.is_ascii_digit())
}
