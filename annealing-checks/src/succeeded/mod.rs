//! A change that waits for a workflow: a turndown for the backup before it.

mod check;
mod layer;
#[cfg(test)]
mod tests;

pub use check::Succeeded;
pub use layer::SucceededLayer;
