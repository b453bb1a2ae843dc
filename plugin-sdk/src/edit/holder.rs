//! Holders of fields.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// The holder of fields, such as `rollout/policy/frontends@43` or `autoscaler`. A holder is whatever program says that it
/// is one: two programs need two names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Holder(Arc<str>);

impl<T: Into<Arc<str>>> From<T> for Holder {
    fn from(name: T) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
