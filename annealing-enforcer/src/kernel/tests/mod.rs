//! The kernel's rules, each with a test that carries its number; the kernel is driven by hand.

mod admission;
mod chaos;
mod corners;
mod invariants;
mod loops;
mod pins;
mod pushes;
mod rig;
