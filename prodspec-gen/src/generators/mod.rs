//! Generators that most pipelines need. Each is called for every asset, whatever its type, and adds an addon where the
//! asset has none.

mod clusters;
mod table;
#[cfg(test)]
mod tests;

pub use clusters::ClusterDomains;
pub use table::AddonTable;
