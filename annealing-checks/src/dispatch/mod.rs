//! Claims of steps and executions: mutual exclusion, fair shares and rate limits of workflows.

mod layer;
mod work;

pub use layer::{ClaimLayer, Claims};
pub use work::Work;
