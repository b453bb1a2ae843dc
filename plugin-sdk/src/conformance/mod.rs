//! Laws of plugins and layers, as functions to run against your own implementation. Requires the feature `testing`.
//!
//! A law that does not hold is an [`Err`] that names the law: `unwrap()` it in a test.
//!
//! | subject | laws | function |
//! |---|---|---|
//! | check layers | only add to the verdict; every delay has a registered name; an error beneath keeps all findings; nothing is added for causes that do not apply | [`check_layer`], [`check_plugin`] |
//! | verdicts | join is associative, commutative, idempotent | [`join`] |
//! | policy layers | choose among the targets that the service beneath selected; give a reason for targets that they hold back | [`select_layer`] |
//! | policies | select only targets that wait; give equal answers to equal requests; select every target in the end | [`select()`] |
//! | health layers | never improve the judgement; an error is unknown and keeps all findings | [`health_layer`], [`health_join`] |
//! | sources of truth | what has changed since a revision, applied to its documents, gives those of a whole reading; equal revisions have equal documents; every document has the name of the source and a key of its own | [`source()`] |
//! | editable sources | a proposal changes nothing; a commit has the content of its proposal, once; another revision or another value is refused | [`editable()`] |
//! | generators | equal inputs give equal bytes: twice, in another order, in another process | [`generator()`] |
//! | external content | the content at an address is read; another digest is refused; what is not there is missing | [`blobs()`] |
//! | functions | equal requests get equal answers if the function is safe; a key has one effect if it is keyed; old attempts are refused if it is guarded; answers stay within powers and limits; a cancelled call ends | [`FunctionSuite`] |
//! | probes | before a call the effect has not happened; after it, it has, with the answer of the call; asking has no effect; work in progress is not given up; another run is another effect | [`FunctionSuite::run_probe`] |
//! | dispatch layers | only raise the class, add delays and add claims; an error beneath keeps all findings | [`dispatch_layer`], [`dispatch_plugin`] |
//! | dispatch answers | join is associative, commutative, idempotent | [`dispatch_join`] |
//! | asset plugins | a diff has no effect; a push brings the asset in sync; pushes are idempotent; old calls are refused | [`AssetSuite`] |
//! | pushes to an empty, an older and a tampered production | the resource is the same afterwards | [`AssetSuite::run_repairs`] |
//! | turndown | it is destructive, complete and idempotent; the asset can be turned up again | [`AssetSuite::run_turndown`] |
//! | renames | a resource is found under its old id, and nothing is left there | [`AssetSuite::run_renames`] |

mod asset;
mod blobs;
mod check;
mod dispatch;
mod editable;
mod function;
mod generator;
mod health;
mod select;
mod source;
mod violation;

pub use asset::{AssetSuite, ByHand};
pub use blobs::blobs;
pub use check::{Beneath, check_layer, check_plugin, join};
pub use dispatch::{DispatchBeneath, dispatch_join, dispatch_layer, dispatch_plugin};
pub use editable::editable;
pub use function::FunctionSuite;
pub use generator::generator;
pub use health::{Found, health_join, health_layer};
pub use select::{Offers, select, select_layer};
pub use source::source;
pub use violation::Violation;

#[cfg(test)]
mod tests;
