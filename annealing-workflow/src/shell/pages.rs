//! Executions that have ended, page by page.

use control_plane_runtime::Runtime;
use control_plane_store::{
    Record,
    record::{self, key},
};
use plugin_sdk::{operation::ExecutionId, workflow::WorkflowName};

use super::{AskError, Handle};
use crate::record::Ended;

/// Maximum number of executions in one page.
const PAGE: usize = 1_000;

impl<R: Runtime> Handle<R> {
    /// Executions that have ended and are kept, sorted by workflow and number: at most `limit`, not more than 1,000, of
    /// those after `after`. `workflow`: only of this one. What only a newer program version can read is left out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn ended_after(
        &self,
        workflow: Option<&WorkflowName>,
        after: Option<&ExecutionId>,
        limit: usize,
    ) -> Result<Vec<Ended>, AskError> {
        let (store, partition) = (&*self.workflows().store, &self.workflows().partition);
        let prefix = workflow.map_or(String::new(), |workflow| format!("{workflow}-"));
        let prefix = format!("{}/{prefix}", key(partition, Ended::KIND, "").as_str());
        let mut rest = Some(control_plane_store::KeyRange::prefix(&prefix));
        if let (Some(range), Some(after)) = (&mut rest, after) {
            *range = range.after(&key(partition, Ended::KIND, &after.to_string()));
        }
        let limit = limit.min(PAGE);
        let mut found = Vec::new();
        while let Some(range) = rest.take().filter(|_| found.len() < limit) {
            let page = store.scan(range, PAGE).await?;
            for (row, stored) in &page.rows {
                let ended = match record::decode::<Ended>(row, stored) {
                    Ok(ended) => ended.value,
                    Err(error) => {
                        tracing::warn!(%partition, execution = %row, %error, "an execution that has ended cannot be read; it is left out");
                        continue;
                    }
                };
                // The name of another workflow may begin with this one and a hyphen.
                if workflow.is_none_or(|it| ended.id.workflow == *it) && found.len() < limit {
                    found.push(ended);
                }
            }
            rest = page.rest;
        }
        Ok(found)
    }
}
