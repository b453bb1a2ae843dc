//! Overload and alerts as policies.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use plugin_sdk::CheckPlugin;
use prodspec_model::{
    Filter,
    policy::{AlertPolicy, AssetField, Exception, OverloadPolicy},
};

use super::{
    compiled::{CheckPolicy, Readers, Refused},
    limit::by_field,
};
use crate::{Scope, monitoring::Monitoring, overload::Overload};

/// The windows that a policy may have. Verdicts by longer ones would be refused as too old.
const WINDOWS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(5)..=Duration::from_secs(30);

impl CheckPolicy for OverloadPolicy {
    fn of(&self) -> &Filter {
        &self.of
    }

    fn except(&self) -> &[Exception] {
        &self.except
    }

    fn check(&self, name: &str, readers: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
        if !WINDOWS.contains(&self.window) || self.window.subsec_nanos() > 0 {
            return Err(Refused::one(
                "window",
                "must be 5s to 30s, in whole seconds",
            ));
        }
        let (most, _) = self
            .at_most
            .value()
            .map_err(|why| Refused::one("at_most", why))?;
        let source = readers.sources.metric(self.source.as_deref());
        let (_, source) = source.map_err(|why| Refused::one("source", why))?;
        let mut rule = Overload::at_most(most, &self.expression)
            .named(name)
            .every(self.window);
        if self.assets.len() > 1 {
            return Err(Refused::one(
                "assets",
                "series meet assets by at most one label here",
            ));
        }
        for (label, scope) in scopes("assets", &self.assets)? {
            rule = rule.within(scope, label);
        }
        match rule.reading(source.clone()) {
            Ok(check) => Ok(Arc::new(check)),
            Err(problem) => Err(vec![("expression", problem).into()]),
        }
    }
}

impl CheckPolicy for AlertPolicy {
    fn of(&self) -> &Filter {
        &self.of
    }

    fn except(&self) -> &[Exception] {
        &self.except
    }

    fn check(&self, name: &str, readers: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
        let signals = readers.signals(self.source.as_deref());
        let signals = signals.map_err(|why| Refused::one("source", why))?;
        let mut check = Monitoring::over(signals).named(name);
        for (label, scope) in scopes("scope", &self.scope)? {
            check = check.within(scope, label);
        }
        if let Some(watchdog) = &self.watchdog {
            check = check.watchdog(watchdog);
        }
        Ok(Arc::new(check))
    }
}

/// The scopes by which series and alerts meet assets, by their labels.
fn scopes<'a>(
    at: &str,
    labels: &'a BTreeMap<String, AssetField>,
) -> Result<Vec<(&'a str, Scope)>, Vec<Refused>> {
    let scope = |(label, field): (&'a String, &AssetField)| {
        let checked = field.check();
        checked.map_err(|why| Refused::one(&format!("{at}.{label}"), why))?;
        Ok((label.as_str(), by_field(field)))
    };
    labels.iter().map(scope).collect()
}
