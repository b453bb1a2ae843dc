//! One copy of each origin that many executions have.

use std::{collections::VecDeque, sync::Arc};

use crate::record::Origin;

/// Number of origins that are compared with a new one.
const RECENT: usize = 16;

/// The origins of the newest executions that did not share one, the newest last.
#[derive(Debug, Default)]
pub(super) struct Origins(VecDeque<Arc<Origin>>);

impl Origins {
    /// Returns the copy of `origin` that an execution has already, or the first one.
    pub(super) fn shared(&mut self, origin: Origin) -> Arc<Origin> {
        self.the_shared(Arc::new(origin))
    }

    /// Returns the copy of `origin` that an execution has already, or `origin` itself.
    pub(super) fn the_shared(&mut self, origin: Arc<Origin>) -> Arc<Origin> {
        if let Some(same) = self.0.iter().rev().find(|it| **it == origin) {
            return same.clone();
        }
        if self.0.len() == RECENT {
            self.0.pop_front();
        }
        self.0.push_back(origin.clone());
        origin
    }
}
