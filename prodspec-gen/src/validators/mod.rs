//! The validators that most pipelines want, each usable alone.

mod capacity;
mod dependencies;
mod references;
mod spread;
mod types;

use std::sync::Arc;

use plugin_sdk::Validator;

pub use capacity::CapacityFits;
pub use dependencies::Dependencies;
pub use references::References;
pub use spread::DomainSpread;
pub use types::KnownTypes;

/// References resolve, dependencies form no cycle, types are known and payloads read as such, capacity edges fit.
pub fn standard() -> Vec<Arc<dyn Validator>> {
    vec![
        Arc::new(References),
        Arc::new(Dependencies),
        Arc::new(KnownTypes),
        Arc::new(CapacityFits),
    ]
}

#[cfg(test)]
mod tests;
