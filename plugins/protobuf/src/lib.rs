#![doc = include_str!("../README.md")]

mod binary;
mod descriptors;
mod schema;
mod text;

pub use binary::{Binary, Delimited};
pub use descriptors::Descriptors;
pub use schema::Schema;
pub use text::Text;
