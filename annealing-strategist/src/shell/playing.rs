//! Previews of rollouts: of those that are live, and of changes that have not begun.

use std::time::Duration;

use async_trait::async_trait;
use control_plane_runtime::Runtime;
use plugin_sdk::{
    BoxError, SelectRequest, Selection, TargetSelection, service::Stack, with_causes,
};
use prodspec_model::Incarnation;

use super::{AskError, Strategist, change_steps::Begun};
use crate::{
    change::Planned,
    kernel::Refused,
    preview::{Course, Schedule},
};

impl<R: Runtime> Strategist<R> {
    /// As [`Handle::preview`](crate::Handle::preview), of a change that was tried beside the incarnation `latest`, and has not
    /// begun.
    ///
    /// # Errors
    /// As there, or when its contents cannot be read.
    pub fn preview(
        &self,
        planned: &Planned,
        latest: &Incarnation,
        settles_after: Duration,
    ) -> Result<Schedule, AskError> {
        let now = self.runtime.now();
        if planned.is_empty() {
            return Ok(Schedule {
                steps: Vec::new(),
                done: now.wall,
            });
        }
        let begun = Begun::of(self, (latest, None), planned.stored(), 0);
        let begun = begun.map_err(|error| Refused(with_causes(&*error)))?;
        self.play(begun.kernel.course(now)?, settles_after)
    }

    pub(super) fn play(
        &self,
        course: Course,
        settles_after: Duration,
    ) -> Result<Schedule, AskError> {
        Ok(course.play(&Selecting(self.select.clone()), settles_after)?)
    }
}

/// The selection stack of a strategist.
struct Selecting(Stack<SelectRequest, Selection>);

#[async_trait]
impl TargetSelection for Selecting {
    async fn select(&self, request: SelectRequest) -> Result<Selection, BoxError> {
        self.0.call(request).await
    }
}
