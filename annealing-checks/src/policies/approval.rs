//! Approvals as policies (R110).

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use plugin_sdk::{
    AWAITS_APPROVAL, BoxError, Causes, CheckInfo, CheckName, CheckPlugin, CheckRequest, Delay,
    Recheck, Verdict,
};
use prodspec_model::{
    Filter,
    policy::{ApprovalPolicy, Exception},
};
use serde_json::json;

use super::compiled::{CheckPolicy, Readers, Refused};

/// Time until an asset that waits for people is looked at again. An approval ends the wait at once.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(3600);

impl CheckPolicy for ApprovalPolicy {
    fn of(&self) -> &Filter {
        &self.of
    }

    fn except(&self) -> &[Exception] {
        &self.except
    }

    fn check(&self, name: &str, _: &Readers) -> Result<Arc<dyn CheckPlugin>, Vec<Refused>> {
        if self.people == 0 {
            return Err(Refused::one("people", "must be at least 1"));
        }
        if self.expires.is_zero() {
            return Err(Refused::one(
                "expires",
                "must be a length of time, such as 24h",
            ));
        }
        let (name, people, expires) = (name.into(), self.people, self.expires);
        Ok(Arc::new(Approval {
            name,
            people,
            expires,
        }))
    }
}

/// Delays a push of intent until different people have approved its change.
struct Approval {
    name: CheckName,
    people: u32,
    expires: std::time::Duration,
}

#[async_trait]
impl CheckPlugin for Approval {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.name.clone()).only_for(Causes::INTENT)
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let counts = |at: Timestamp| {
            let age = request.now.duration_since(at);
            std::time::Duration::try_from(age).is_ok_and(|age| age < self.expires)
        };
        let given = request.approvals.iter().filter(|it| counts(it.at));
        // One person counts once, however often the command is given.
        let people: BTreeMap<&str, Timestamp> = given.map(|it| (&*it.by, it.at)).collect();
        let missing = (self.people as usize).saturating_sub(people.len());
        if missing == 0 {
            return Ok(request.proceed());
        }
        let (change, asset) = (request.change.digest, request.asset_id());
        let by: Vec<String> = people
            .iter()
            .map(|(by, at)| format!("{by} at {at}"))
            .collect();
        let by = match by.is_empty() {
            true => String::new(),
            false => format!(" ({})", by.join(", ")),
        };
        let reason = format!(
            "needs {missing} more of {} approvals{by}: approve change {change} of {asset}",
            self.people
        );
        // A time, so that the kernel remembers the wait while the asset is looked at for drift.
        let again = request.now.saturating_add(AGAIN).unwrap_or(Timestamp::MAX);
        let delay = Delay::new(reason, Recheck::At(again));
        let evidence = json!({AWAITS_APPROVAL: missing, "people": self.people, "approved": people, "change": change});
        Ok(Verdict::delay(request.now, delay.because(evidence)))
    }
}
