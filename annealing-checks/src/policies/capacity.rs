//! Capacity as a policy (R109).

use std::{sync::Arc, time::Duration};

use plugin_sdk::{Cause, CheckPlugin, CheckRequest};
use prodspec_model::{
    Filter, Message,
    addons::Turndown,
    policy::{CapacityPolicy, Exception, Without},
};

use super::{
    compiled::{CheckPolicy, Readers, Refused},
    limit::scope,
};
use crate::capacity::{Capacity, Excluded, Rule};

const DAY: Duration = Duration::from_secs(24 * 3600);

impl CheckPolicy for CapacityPolicy {
    fn of(&self) -> &Filter {
        &self.of
    }

    fn except(&self) -> &[Exception] {
        &self.except
    }

    /// Capacity must not be lost on the way back either.
    fn holds_unread(request: &CheckRequest) -> bool {
        let mut all = request.change.effects.capacity.values();
        let leaves = || request.asset().is_ok_and(|it| it.has_addon(Turndown::TYPE));
        request.cause != Cause::Emergency && (all.any(|it| it.to < it.from) || leaves())
    }

    fn check(&self, name: &str, readers: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
        if self.unit.is_empty() {
            return Err(Refused::one(
                "unit",
                "needs the unit of the capacity, such as qps",
            ));
        }
        if !(0.1..=10.0).contains(&self.headroom) {
            return Err(Refused::one("headroom", "must be 0.1 to 10"));
        }
        if !(DAY..=DAY * 30).contains(&self.peak.window) {
            return Err(Refused::one("peak.window", "must be 1d to 30d"));
        }
        for (at, without) in self.peak.except.iter().enumerate() {
            is_complete(without).map_err(|why| Refused::one(&format!("peak.except[{at}]"), why))?;
        }
        let scope = scope(self.per.as_ref())?.matching(self.of.clone());
        let rule = Capacity::of(&self.unit)
            .named(name)
            .headroom(self.headroom)
            .back(self.peak.window)
            .without(self.peak.except.iter().map(excluded));
        let rule = match &self.usage.label {
            Some(label) => rule.within(scope, label),
            None => rule.over(scope),
        };
        with_usage(self, rule, readers)
    }
}

/// The check with the usage that the policy names.
fn with_usage(
    policy: &CapacityPolicy,
    rule: Rule,
    readers: &Readers,
) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
    let usage = &policy.usage;
    let expression = match (&usage.expression, &usage.field) {
        (Some(expression), None) => expression,
        (None, Some(field)) if usage.label.is_none() && usage.source.is_none() => {
            field
                .check()
                .map_err(|why| Refused::one("usage.field", why))?;
            return Ok(Arc::new(rule.modelled(field.clone())));
        }
        _ => {
            let why = "needs an expression, with its source and label, or a field, and not both";
            return Err(Refused::one("usage", why));
        }
    };
    if usage.label.is_some() != policy.per.is_some() {
        let why = "`label` names the parts of the series, and `per` those of the assets: write both or none";
        return Err(Refused::one("usage.label", why));
    }
    let source = readers.sources.metric(usage.source.as_deref());
    let (_, source) = source.map_err(|why| Refused::one("usage.source", why))?;
    match rule.measured(expression, source.clone()) {
        Ok(check) => Ok(Arc::new(check)),
        Err(problem) => Err(vec![("usage.expression", problem).into()]),
    }
}

fn is_complete(without: &Without) -> Result<(), &'static str> {
    match () {
        () if without.from >= without.until => Err("`until` must be after `from`"),
        () if without.why.trim().is_empty() => Err("needs a reason"),
        () => Ok(()),
    }
}

fn excluded(without: &Without) -> Excluded {
    Excluded {
        from: without.from,
        until: without.until,
        why: without.why.clone(),
    }
}
