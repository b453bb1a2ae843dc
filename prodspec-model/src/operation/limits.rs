//! Limits of workflows that are edited like any other asset.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::message::Message;

/// Limits of what workflows do at once and how often, and the workflows of which no execution starts.
///
/// ```
/// use prodspec_model::operation::{Limit, Limits};
///
/// let limits = Limits::new([
///     Limit::at_most("press", 1).function("print-posters"),
///     Limit::at_most("fair", 10).per_label("app").executions(),
///     Limit::rate("mails", 2, 60).function("send-mail"),
/// ])
/// .drain(["season"]);
/// assert_eq!(limits.problems(), Vec::<(String, String)>::new());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "workflow.v1.Limits")]
#[schemars(deny_unknown_fields)]
pub struct Limits {
    /// The limits. All of them apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// Names of workflows of which no execution starts. Those under way go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drain: Vec<String>,
}

impl Message for Limits {
    const TYPE: &'static str = "workflow.v1.Limits";
}

/// A limit of attempts of steps, or of executions: how many at once, or how often.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Limit {
    /// The name of the limit, different from those of the others. Explanations show it.
    pub name: String,
    /// Only executions of the workflow with this name count. `None`: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only calls of the function with this name count. `None`: all attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Name of a label of executions: each of its values counts by itself, and executions without it do not count. `None`:
    /// all count together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_label: Option<String>,
    /// Whether executions count, from their start to their end, instead of attempts of steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executions: bool,
    /// Number of those that may be under way at once, at least 1. `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u32>,
    /// How often they may start. `None`: at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// How often something may start: some at once, then one more after each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Rate {
    /// Number of starts at once after a long time without starts, at least 1.
    pub burst: u32,
    /// Seconds after which one more may start, at least 1.
    pub every_secs: u64,
}

impl Limits {
    /// These limits; no workflow is drained.
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self {
            limits: limits.into_iter().collect(),
            drain: Vec::new(),
        }
    }

    /// Lets no execution of these workflows start.
    #[must_use]
    pub fn drain<W: Into<String>>(mut self, workflows: impl IntoIterator<Item = W>) -> Self {
        self.drain.extend(workflows.into_iter().map(Into::into));
        self
    }

    /// What is wrong, each with the field. Empty: the limits can be used.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        for (at, limit) in self.limits.iter().enumerate() {
            let mut problem = |field: &str, why: &str| {
                problems.push((format!("limits[{at}].{field}"), why.to_owned()));
            };
            if limit.name.is_empty() || limit.name.contains('/') {
                problem("name", "give the limit a name without slashes");
            }
            let before = self.limits.iter().take(at);
            if before.clone().any(|other| other.name == limit.name) {
                problem("name", "another limit has this name; give it its own");
            }
            match (limit.at_most, limit.rate) {
                (None, None) => problem("at_most", "set `at_most`, `rate` or both"),
                (Some(0), _) => problem("at_most", "0 would stop everything; use `drain` for that"),
                (_, Some(Rate { burst: 0, .. } | Rate { every_secs: 0, .. })) => {
                    problem("rate", "`burst` and `every_secs` are at least 1");
                }
                _ => {}
            }
            if limit.executions && limit.function.is_some() {
                problem(
                    "function",
                    "an execution calls many functions; leave it out",
                );
            }
        }
        problems
    }
}

impl Limit {
    fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// At most `many` at once.
    pub fn at_most(name: impl Into<String>, many: u32) -> Self {
        Self {
            at_most: Some(many),
            ..Self::named(name)
        }
    }

    /// `burst` at once, then one more every so many seconds.
    pub fn rate(name: impl Into<String>, burst: u32, every_secs: u64) -> Self {
        Self {
            rate: Some(Rate { burst, every_secs }),
            ..Self::named(name)
        }
    }

    /// Counts only executions of this workflow.
    #[must_use]
    pub fn workflow(mut self, workflow: impl Into<String>) -> Self {
        self.workflow = Some(workflow.into());
        self
    }

    /// Counts only calls of this function.
    #[must_use]
    pub fn function(mut self, function: impl Into<String>) -> Self {
        self.function = Some(function.into());
        self
    }

    /// Counts each value of this label by itself.
    #[must_use]
    pub fn per_label(mut self, label: impl Into<String>) -> Self {
        self.per_label = Some(label.into());
        self
    }

    /// Counts executions instead of attempts of steps.
    #[must_use]
    pub fn executions(mut self) -> Self {
        self.executions = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_stop_everything_or_nothing_are_named_with_their_field() {
        let limits = Limits::new([
            Limit::at_most("a", 0),
            Limit::at_most("a", 1),
            Limit::default(),
            Limit::rate("b", 1, 0),
            Limit::at_most("c", 1).function("f").executions(),
        ]);
        let problems = limits.problems();
        let fields: Vec<_> = problems.iter().map(|(field, _)| &**field).collect();
        assert_eq!(
            fields,
            [
                "limits[0].at_most",
                "limits[1].name",
                "limits[2].name",
                "limits[2].at_most",
                "limits[3].rate",
                "limits[4].function",
            ]
        );
    }

    #[test]
    fn stored_form_is_stable() {
        let limits = Limits::new([Limit::rate("mails", 2, 60).function("send")]).drain(["season"]);
        let json = serde_json::json!({
            "limits": [{ "name": "mails", "function": "send", "rate": { "burst": 2, "every_secs": 60 } }],
            "drain": ["season"],
        });
        assert_eq!(serde_json::to_value(&limits).unwrap(), json);
        assert_eq!(serde_json::from_value::<Limits>(json).unwrap(), limits);
    }
}
