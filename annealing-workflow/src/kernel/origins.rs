//! One copy of each origin that many executions have.

use std::{collections::VecDeque, sync::Arc};

use crate::record::Origin;

/// Number of origins that are compared with a new one.
const RECENT: usize = 16;

/// The origins of the newest executions that did not share one, the newest last.
#[derive(Debug, Default)]
pub(super) struct Origins(VecDeque<Arc<Origin>>);

impl Origins {
    /// Returns the copy of `origin` that an execution has already, or `origin` itself.
    pub(super) fn shared(&mut self, origin: impl Into<Arc<Origin>>) -> Arc<Origin> {
        let origin = origin.into();
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
