//! Refuses a policy before the seal that could not judge, or could pass without data.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::{AssetView, Problems, Sources};
use prodspec_model::policy::{Counter, HealthPolicy, HealthRule, Threshold, Unit, Worse};

use super::compiled::{expressions, measured};

/// The shortest window: shorter ones have no two samples.
const SHORTEST: Duration = Duration::from_secs(10);
/// The longest window, and the longest warm-up.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Checks that a health policy can judge with these sources, and cannot pass without data.
///
/// ```
/// use annealing_strategist::health::policies;
/// use plugin_sdk::{AssetType, Sources};
/// use prodspec_model::policy::HealthPolicy;
///
/// let sources = Sources::default();
/// let types = AssetType::<HealthPolicy>::new().modelled_only();
/// let types = types.valid(move |policy, view, problems| policies::valid(&sources, policy, view, problems));
/// # let _ = types;
/// ```
pub fn valid(
    sources: &Sources,
    policy: &HealthPolicy,
    view: &AssetView<'_>,
    problems: &mut Problems,
) {
    for (field, message) in wrong(sources, policy) {
        problems.push(view.problem(message).field(format!("payload.{field}")));
    }
    for (at, rule) in policy.rules.iter().enumerate() {
        if let Some(why) = unborn(rule) {
            let field = format!("payload.rules[{at}].expression");
            problems.push(view.problem(why).field(field).warning());
        }
    }
}

/// Returns each invalid field with a message.
pub(super) fn wrong(sources: &Sources, policy: &HealthPolicy) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let mut says = |field: String, message: String| wrong.push((field, message));
    // A comparison alone may have nothing to compare with.
    let is_bound =
        |it: &HealthRule| it.at_most.is_some() || it.at_least.is_some() || it.worse.is_none();
    let is_critical = |it: &HealthRule| it.count.is_critical() && is_bound(it);
    if policy.alerts.is_none() && !policy.rules.iter().any(is_critical) {
        let why =
            "the policy can pass without data: give it a critical rule with a bound, or alerts";
        says("rules".into(), why.into());
    }
    for (name, length) in [("window", policy.window), ("warm_up", policy.warms_up())] {
        let shortest = if name == "window" {
            SHORTEST
        } else {
            Duration::ZERO
        };
        if !(shortest..=LONGEST).contains(&length) || length.subsec_nanos() > 0 {
            let why = format!(
                "must be {} s to 1 day, in whole seconds",
                shortest.as_secs()
            );
            says(name.into(), why);
        }
    }
    for (label, field) in &policy.assets {
        if let Err(why) = field.check() {
            says(format!("assets.{label}"), why);
        }
    }
    if let Some(alerts) = &policy.alerts
        && let Err(why) = sources.signal(alerts.source.as_deref())
    {
        says("alerts.source".into(), why);
    }
    let mut names = BTreeSet::new();
    for (at, rule) in policy.rules.iter().enumerate() {
        if rule.name.trim().is_empty() || !names.insert(&rule.name) {
            let why = "must be a name that no other rule has".to_owned();
            says(format!("rules[{at}].name"), why);
        }
        for (field, why) in wrong_rule(rule) {
            says(format!("rules[{at}].{field}"), why);
        }
    }
    wrong_source(sources, policy, &mut says);
    wrong
}

/// Whether the source exists, and accepts the expressions.
fn wrong_source(sources: &Sources, policy: &HealthPolicy, says: &mut impl FnMut(String, String)) {
    if policy.rules.is_empty() {
        return;
    }
    let source = match sources.metric(policy.source.as_deref()) {
        Ok((_, source)) => source,
        Err(why) => return says("source".into(), why),
    };
    for (at, rule) in policy.rules.iter().enumerate() {
        let all = expressions(rule, policy).unwrap_or_default();
        for expression in &all {
            if let Err(problem) = source.accepts(expression) {
                let field = if rule.counter.is_some() {
                    "counter"
                } else {
                    "expression"
                };
                says(format!("rules[{at}].{field}"), problem.message);
            }
        }
    }
}

fn wrong_rule(rule: &HealthRule) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    if let Err(why) = measured(rule) {
        wrong.push(("expression", why));
    }
    if rule.at_most.is_none() && rule.at_least.is_none() && rule.worse.is_none() {
        let why = "a rule needs a bound: at_most or at_least";
        wrong.push(("at_most", why.to_owned()));
    }
    let worse = rule.worse.and_then(|worse| wrong_comparison(rule, worse));
    wrong.extend(worse.map(|why| ("worse", why)));
    for (field, bound) in [("at_most", &rule.at_most), ("at_least", &rule.at_least)] {
        let why = bound.as_ref().and_then(|bound| wrong_bound(rule, bound));
        wrong.extend(why.map(|why| (field, why)));
    }
    wrong
}

/// Why units cannot be compared.
fn wrong_comparison(rule: &HealthRule, worse: Worse) -> Option<String> {
    let ranks_counts = rule.counter.is_some() && rule.among.is_none() && !worse.same_traffic;
    if !cfg!(feature = "statistics") {
        Some("this control plane was built without the feature `statistics`".to_owned())
    } else if !worse.guard.is_finite() || worse.guard < 1.0 {
        Some("the guard is a ratio of means: write at least 1".to_owned())
    } else if ranks_counts {
        Some("ranks counts: add `among`, or write same_traffic: true".to_owned())
    } else {
        None
    }
}

/// Why a bound cannot be one of the values that the rule measures.
fn wrong_bound(rule: &HealthRule, bound: &Threshold) -> Option<String> {
    let (number, unit) = match bound.value() {
        Ok(value) => value,
        Err(why) => return Some(why),
    };
    if let (Some(Counter { of, .. }), None) = (&rule.counter, &rule.among) {
        let is_rate = unit == Unit::Number;
        return (!is_rate).then(|| format!("`{of}` is counted per second: write a number"));
    }
    if rule.among.is_some() {
        let is_share = unit != Unit::Seconds && (0.0..=1.0).contains(&number);
        return (!is_share).then(|| "a share is between 0% and 100%: write 2%, or 0.02".to_owned());
    }
    let text = rule.expression.as_deref().unwrap_or_default();
    match (
        unit,
        metric_of(text, "_seconds"),
        metric_of(text, "_milliseconds"),
    ) {
        (Unit::Number | Unit::Share, Some(metric), _) => {
            Some(format!("{metric} is in seconds: write 250ms, not 250"))
        }
        (Unit::Seconds, _, Some(metric)) => Some(format!(
            "{metric} is in milliseconds: write a number of them"
        )),
        _ => None,
    }
}

/// The metric in an expression whose values are in a unit that its name ends with. Not one whose rise or share is measured.
fn metric_of<'a>(text: &'a str, unit: &str) -> Option<&'a str> {
    let names = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_' && it != ':');
    let is_plain = !["rate(", "increase(", "/"]
        .iter()
        .any(|it| text.contains(it));
    let is_quantile = text.trim_start().starts_with("histogram_quantile(");
    let bucket = format!("{unit}_bucket");
    let mut ours = names
        .filter(|it| (is_quantile && it.ends_with(&bucket)) || (is_plain && it.ends_with(unit)));
    ours.next()
}

/// R106: why an expression may miss events.
fn unborn(rule: &HealthRule) -> Option<String> {
    let text = rule.expression.as_deref()?;
    let counts = text.contains("rate(") || text.contains("increase(");
    let is_quantile = text.contains("histogram_quantile(");
    (counts && !is_quantile).then(|| {
        "does not see events from before the first scrape of a counter: write it as `counter`, and `among` for a share".to_owned()
    })
}
