//! A check of the team's own: whoever works on the pages by hand keeps the service away with a file.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use plugin_sdk::{BoxError, Causes, CheckInfo, CheckPlugin, CheckRequest, Delay, Recheck, Verdict};

/// How soon it is looked at again.
const AGAIN: Duration = Duration::from_millis(200);

/// Nothing is pushed while a file is there.
#[derive(Debug, Clone)]
pub struct Freeze(PathBuf);

impl Freeze {
    /// Nothing is pushed while `file` is there.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self(file.into())
    }
}

#[async_trait]
impl CheckPlugin for Freeze {
    fn info(&self) -> CheckInfo {
        CheckInfo {
            name: "freeze".into(),
            causes: Causes::ALL,
        }
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let by = match tokio::fs::read_to_string(&self.0).await {
            Ok(by) => by,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Verdict::proceed(request.now));
            }
            // Whatever else goes wrong means no.
            Err(error) => return Err(error.into()),
        };
        let reason = format!("{} is there, by {}", self.0.display(), by.trim());
        let delay = Delay::new(reason, Recheck::After(AGAIN));
        Ok(Verdict::delay(request.now, delay))
    }
}
