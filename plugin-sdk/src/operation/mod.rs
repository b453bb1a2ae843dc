//! Operations and workflows: functions that look and say what should be, with their requests and answers.
//!
//! Requests and answers are plain data, so that a function can live in another process. A function written for pipelines
//! of Crossplane maps onto them as follows; an adapter needs no other shape.
//!
//! | Crossplane | here |
//! |---|---|
//! | `meta.tag` | the digest of the request |
//! | `input` | [`FunctionRequest::input`] |
//! | `context` | [`FunctionRequest::context`], [`Answer::context`] |
//! | `desired.resources` | [`FunctionRequest::edits`], [`Answer::edits`], grouped by document |
//! | `required_resources` | [`FunctionRequest::required`]; the standing is under `status` |
//! | `requirements.resources` | [`Ran::Needs`] |
//! | `results` with severity `FATAL` | [`PluginError::Permanent`](crate::plugin::Error::Permanent) |
//! | other `results` | [`Answer::notes`] |
//! | `output` | [`Answer::output`] |
//! | `ttl`, `conditions` | not used |

mod answer;
mod cause;
mod execution;
mod function;
mod limit;
mod power;
mod request;
mod requirement;
mod runs;
mod start;

pub use self::{
    answer::{Answer, InvalidAnswer, Probed, Ran, SourceEdit},
    cause::StartCause,
    execution::{
        EffectKey, ExecutionId, Fence, InvalidEffectKey, InvalidExecutionId, InvalidKeyIdentity,
        KeyIdentity,
    },
    function::{FromFn, FunctionInfo, OperationFunction, Probe, Repeat, from_fn},
    limit::{Limit, OverLimit},
    power::{InvalidPower, NotAllowed, Powers},
    request::FunctionRequest,
    requirement::{Required, Requirement},
    runs::{AssetRun, AssetRuns, Join, RunEnd, Runs, Success, content},
    start::{InvalidStart, Note, PauseAsset, Start},
};
pub use prodspec_model::operation::Power;
