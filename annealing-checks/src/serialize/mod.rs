//! Mutual exclusion: pushes with the same key never run at the same time.

mod check;
mod layer;

pub use check::Serialize;
pub use layer::SerializeLayer;
