//! Validators that most pipelines need. Each can be used alone.

mod capacity;
mod dependencies;
mod moves;
mod references;
mod spread;
mod types;

use std::sync::Arc;

use plugin_sdk::Validator;

pub use capacity::CapacityFits;
pub use dependencies::Dependencies;
pub use moves::Moves;
pub use references::References;
pub use spread::DomainSpread;
pub use types::KnownTypes;

/// The standard validators: [`References`], [`Moves`], [`Dependencies`], [`KnownTypes`] and [`CapacityFits`].
pub fn standard() -> Vec<Arc<dyn Validator>> {
    vec![
        Arc::new(References),
        Arc::new(Moves),
        Arc::new(Dependencies),
        Arc::new(KnownTypes),
        Arc::new(CapacityFits),
    ]
}

#[cfg(test)]
mod tests;
