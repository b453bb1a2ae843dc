//! The team's own check: while a freeze file exists, the service pushes no page.
//!
//! A person who edits pages by hand creates the file first, with their name in it, and deletes it afterwards.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use plugin_sdk::{BoxError, CheckInfo, CheckPlugin, CheckRequest, Delay, Recheck, Verdict};

/// Delay before the check runs again for a push that it delayed.
const AGAIN: Duration = Duration::from_millis(200);

/// A check that delays every push while a freeze file exists.
#[derive(Debug, Clone)]
pub struct Freeze(PathBuf);

impl Freeze {
    /// Creates the check. Every push is delayed while `file` exists; its content names the person who created it.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self(file.into())
    }
}

#[async_trait]
impl CheckPlugin for Freeze {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("freeze")
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let by = match tokio::fs::read_to_string(&self.0).await {
            Ok(by) => by,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Verdict::proceed(request.now));
            }
            // If the file exists but cannot be read, fail the check: a check that fails delays the push.
            Err(error) => return Err(error.into()),
        };
        let reason = format!("frozen by {}: {} exists", by.trim(), self.0.display());
        let delay = Delay::new(reason, Recheck::After(AGAIN));
        Ok(Verdict::delay(request.now, delay))
    }
}
