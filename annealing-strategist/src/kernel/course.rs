//! A live rollout as a preview plays it from now on.

use std::sync::Arc;

use plugin_sdk::Now;

use super::{Kernel, Refused};
use crate::{preview::Course, record::State};

impl Kernel {
    /// The live rollout as it is now, to be played.
    ///
    /// # Errors
    /// When no rollout is live, or it does not go forward by itself.
    pub(crate) fn course(&self, now: Now) -> Result<Course, Refused> {
        let policy = self.group.policy();
        let refused = |why: &str| Refused(format!("`{policy}` has no rollout to preview: {why}"));
        let live = self.live.as_ref().ok_or_else(|| refused("none is live"))?;
        if *live.state() != State::Running {
            return Err(refused(&format!(
                "{} is {}",
                live.id(),
                live.state().word()
            )));
        }
        if let Some(line) = self.stopped_line(now) {
            return Err(refused(&line.to_string()));
        }
        let request = self.request(now).map_err(|why| refused(&why))?;
        let contents = live.contents();
        let places = (0..).zip(live.targets().all().iter());
        let only = places.filter(|(_, target)| self.is_modelled_only(contents, &target.asset));
        let closure = live.targets().closure().clone();
        Ok(Course {
            at_once: only.map(|(place, _)| place).collect(),
            closed: Arc::new(move |places| closure.close(places)),
            request,
        })
    }
}
