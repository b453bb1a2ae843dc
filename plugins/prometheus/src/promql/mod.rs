//! Expressions in PromQL: their syntax, the labels of their series, and whether their data is fresh.

mod counter;
mod labels;

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use plugin_sdk::{Expression, Quantity};
use promql_parser::{
    parser::{Expr, parse, value::ValueType},
    util::{ExprVisitor, walk_expr},
};

/// The text in an expression that stands for the length of the window.
const WINDOW: &str = "$window";

/// Maximum length of an expression, in bytes. Longer ones do not fit into the address of a request everywhere.
const LENGTH: usize = 4_096;

/// The text in PromQL of an expression for windows of this length, which has values only while a metric in it has a sample that is not
/// older than two windows. Servers look up to five minutes back, and would show the last value of a production that they do not
/// reach any more.
///
/// # Errors
/// The reason why the expression cannot be evaluated.
pub(crate) fn fresh(expression: &Expression, window: Duration) -> Result<String, String> {
    let text = over(&counter::text(expression), window);
    let parsed = parse(&text)?;
    let mut selectors = Selectors::default();
    let Ok(_) = walk_expr(&mut selectors, &parsed);
    let oldest = window.as_secs().saturating_mul(2);
    let is_fresh = |of: &String| format!("max(timestamp({of})) > time() - {oldest}");
    let fresh: Vec<String> = selectors.0.iter().map(is_fresh).collect();
    let vector = match parsed.value_type() {
        // The text may end with a comment.
        ValueType::Scalar => format!("vector({text}\n)"),
        _ => format!("({text}\n)"),
    };
    Ok(match fresh.is_empty() {
        true => text,
        false => format!("{vector} and on() ({})", fresh.join(" or ")),
    })
}

/// The metrics in an expression whose present samples it uses.
#[derive(Default)]
struct Selectors(BTreeSet<String>);

impl ExprVisitor for Selectors {
    type Error = Infallible;

    fn pre_visit(&mut self, of: &Expr) -> Result<bool, Infallible> {
        let selector = match of {
            Expr::VectorSelector(it) => Some(it),
            Expr::MatrixSelector(it) => Some(&it.vs),
            _ => None,
        };
        let present = selector.filter(|it| it.offset.is_none() && it.at.is_none());
        self.0.extend(present.map(ToString::to_string));
        Ok(true)
    }
}

/// The text with the length of the window.
fn over(text: &str, window: Duration) -> String {
    text.replace(WINDOW, &format!("{}s", window.as_secs()))
}

/// Checks that an expression can be evaluated, and that its series have the labels it names.
///
/// # Errors
/// The reason, and how to write it instead.
pub(crate) fn check(expression: &Expression) -> Result<(), String> {
    if let Quantity::Counter(counter) = &expression.of {
        counter::check(counter)?;
    }
    let text = over(&counter::text(expression), Duration::from_secs(60));
    if text.len() > LENGTH {
        return Err(format!(
            "the expression has {} bytes, and at most {LENGTH} are allowed: record it as a rule of the server",
            text.len()
        ));
    }
    let parsed = parse(&text).map_err(|why| format!("`{expression}` is not PromQL: {why}"))?;
    match parsed.value_type() {
        ValueType::Vector => {}
        ValueType::Scalar if expression.labels.is_empty() => {}
        other => {
            return Err(format!(
                "`{expression}` is a {other}: write an expression with one value per series, such as rate(...[{WINDOW}])"
            ));
        }
    }
    let lost = expression
        .labels
        .iter()
        .find(|label| !labels::keeps(&parsed, label));
    lost.map_or(Ok(()), |label| {
        Err(format!(
            "`{expression}` loses the label `{label}`, by which series meet assets: write by ({label}) where it aggregates"
        ))
    })
}
