//! Tests of the kernel's rules, named by rule number, with a toy enforcer in virtual time.

mod back;
mod chaos;
mod closure;
mod control;
mod crash;
mod edits;
mod health;
mod many;
mod newer;
mod people;
mod pins;
mod plane;
#[cfg(feature = "planted-bugs")]
mod planted;
mod previewed;
mod quarantine;
pub(super) mod rig;
mod select;
mod settle;
mod stall;
mod stopped;
mod taken_over;
mod verdict;
