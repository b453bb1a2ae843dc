#![doc = include_str!("../README.md")]

mod blobs;
mod bounded;
mod files;
mod layer;
mod oci;
mod tar;
mod unpacked;

pub use blobs::OciBlobs;
pub use files::Limits;
pub use oci::OciLayout;
pub use tar::Tar;

#[cfg(test)]
mod tests;
