//! Rates and blast radius as policies.

use std::sync::Arc;

use plugin_sdk::{CheckPlugin, Quota};
use prodspec_model::{
    Asset, Filter,
    policy::{AssetField, BlastRadiusPolicy, Exception, RatePolicy, Threshold, Unit},
};

use super::compiled::{CheckPolicy, Readers, Refused};
use crate::{
    Scope,
    blast_radius::{BlastRadius, Most},
    rate::Rate,
};

impl CheckPolicy for RatePolicy {
    fn of(&self) -> &Filter {
        &self.of
    }

    fn except(&self) -> &[Exception] {
        &self.except
    }

    fn check(&self, name: &str, _: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
        if self.burst == 0 {
            return Err(Refused::one(
                "burst",
                "must be at least 1: none would ever be pushed",
            ));
        }
        if self.every.is_zero() {
            return Err(Refused::one(
                "every",
                "must be a length of time, such as 60s",
            ));
        }
        let scope = scope(self.per.as_ref())?;
        let quota = Quota::new(self.burst, self.every);
        Ok(Arc::new(Rate::new(name, scope, quota)))
    }
}

impl CheckPolicy for BlastRadiusPolicy {
    fn of(&self) -> &Filter {
        &self.of
    }

    fn except(&self) -> &[Exception] {
        &self.except
    }

    fn check(&self, name: &str, _: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
        let most = most(&self.at_most).map_err(|why| Refused::one("at_most", why))?;
        let scope = scope(self.per.as_ref())?.matching(self.of.clone());
        Ok(Arc::new(BlastRadius::new(name, scope, most)))
    }
}

/// The scope in which assets with the same text in a field count together.
pub(super) fn scope(per: Option<&AssetField>) -> Result<Scope, Vec<Refused>> {
    let Some(field) = per else {
        return Ok(Scope::all());
    };
    field.check().map_err(|why| Refused::one("per", why))?;
    Ok(by_field(field))
}

/// Assets with the same text in a field count together. Those without it are a part of their own, so that a field that is not there
/// opens no gate.
pub(super) fn by_field(field: &AssetField) -> Scope {
    let field = field.clone();
    Scope::by(move |asset: &Asset| Some(field.of(asset).unwrap_or_default()))
}

fn most(written: &Threshold) -> Result<Most, String> {
    let (number, unit) = written.value()?;
    match unit {
        Unit::Share if number > 0.0 && number <= 1.0 => Ok(Most::Share(number)),
        Unit::Number if number >= 1.0 && number.fract() == 0.0 && number <= f64::from(u32::MAX) => {
            Ok(Most::Assets(number as u32))
        }
        _ => Err("must be a whole number from 1, or a share such as 10%".to_owned()),
    }
}
