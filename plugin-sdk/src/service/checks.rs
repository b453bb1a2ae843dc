//! An assembled stack of checks that knows the names of its checks, and lets no delay pass under another one's name.

use std::{cell::RefCell, sync::Arc};

use futures::future::BoxFuture;
use tower_service::Service;

use super::{Proceed, call::Call};
use crate::{
    check::{CheckName, CheckRequest, StackId, Verdict},
    error::BoxError,
};

/// Why a stack of checks is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Several checks have one name.
    #[error(
        "several checks of the stack are named {}: an override could not tell them apart; give each a name of its own, with `.named(\"...\")` on its `CheckLayer`, or as the check itself offers it",
        quoted(.0)
    )]
    Twice(Vec<CheckName>),
    /// A check has no name, or that of the stack.
    #[error(
        "a check of the stack is named {}, which is {}; give it another name, with `.named(\"...\")` on its `CheckLayer`",
        quoted(std::slice::from_ref(.0)),
        if .0.as_str() == CheckName::STACK { "reserved for the stack itself" } else { "no text that a person can type" }
    )]
    Name(CheckName),
}

fn quoted(names: &[CheckName]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// A whole stack of check layers, assembled once.
///
/// Every delay that comes out of it carries the name under which its check was registered. What a layer that is no check
/// adds by itself carries [`CheckName::STACK`], whatever it wrote: no override lifts it. To name it, make the layer a
/// [`CheckPlugin`](crate::CheckPlugin) and put it in with a [`CheckLayer`](super::CheckLayer).
///
/// ```
/// # use plugin_sdk::{CheckPlugin, service::{CheckLayer, Checks}};
/// # fn assemble(one: impl CheckPlugin, other: impl CheckPlugin) -> Result<(), Box<dyn std::error::Error>> {
/// let checks = Checks::assemble(|base| {
///     tower::ServiceBuilder::new()
///         .layer(CheckLayer::new(one).named("incident"))
///         .layer(CheckLayer::new(other).named("change-freeze"))
///         .service(base)
/// });
/// checks.validate()?;
/// assert_eq!(checks.names(), ["change-freeze", "incident"].map(Into::into));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Checks {
    stack: Arc<dyn Call<CheckRequest, Verdict>>,
    names: Arc<[CheckName]>,
}

impl Checks {
    /// Assembles a stack of the layers that `layers` puts around its argument.
    ///
    /// Names are registered while `layers` runs: tower hands a layer the service beneath it and nothing else. So the
    /// layers have to be applied inside. The delays of a check that was put into a service before carry
    /// [`CheckName::STACK`], as those of any layer that is no check.
    pub fn assemble<S>(layers: impl FnOnce(Proceed) -> S) -> Self
    where
        S: Service<CheckRequest, Response = Verdict, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let id = StackId::fresh();
        let roll = Roll::open(id);
        let service = layers(Proceed);
        let mut names = roll.close();
        names.sort();
        let stack = Arc::new(Signed { service, id });
        let names = names.into();
        Self { stack, names }
    }

    /// The names of its checks, sorted. What an override may name.
    pub fn names(&self) -> &[CheckName] {
        &self.names
    }

    /// Whether each check has a name of its own.
    ///
    /// # Errors
    /// Names what has to be renamed, and says how.
    pub fn validate(&self) -> Result<(), Error> {
        let unfit = |name: &&CheckName| {
            let text = name.as_str();
            text == CheckName::STACK || text.trim() != text || text.is_empty() || {
                text.chars().any(char::is_control)
            }
        };
        if let Some(name) = self.names.iter().find(unfit) {
            return Err(Error::Name(name.clone()));
        }
        let pairs = self.names.windows(2).filter(|pair| pair[0] == pair[1]);
        let mut twice: Vec<CheckName> = pairs.map(|pair| pair[0].clone()).collect();
        twice.dedup();
        match twice.is_empty() {
            true => Ok(()),
            false => Err(Error::Twice(twice)),
        }
    }

    /// Asks every check.
    pub fn call(&self, request: CheckRequest) -> BoxFuture<'static, Result<Verdict, BoxError>> {
        self.stack.call(request)
    }
}

impl Default for Checks {
    /// Without checks: nothing against any push.
    fn default() -> Self {
        Self::assemble(|base| base)
    }
}

impl std::fmt::Debug for Checks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checks")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// A stack whose delays leave it under registered names only.
struct Signed<S> {
    service: S,
    id: StackId,
}

impl<S> Call<CheckRequest, Verdict> for Signed<S>
where
    S: Service<CheckRequest, Response = Verdict, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    fn call(&self, request: CheckRequest) -> BoxFuture<'static, Result<Verdict, BoxError>> {
        let (mut service, id) = (self.service.clone(), self.id);
        Box::pin(async move {
            std::future::poll_fn(|cx| service.poll_ready(cx))
                .await
                .map_err(Into::into)?;
            let verdict = service.call(request).await.map_err(Into::into)?;
            let all = CheckName::from(CheckName::STACK);
            Ok(verdict.stamped(&all, &all, Some(id)))
        })
    }
}

thread_local! {
    /// The stack that is being assembled on this thread.
    static OPEN: RefCell<Option<(StackId, Vec<CheckName>)>> = const { RefCell::new(None) };
}

/// Collects the names of the checks of one stack, as long as it is there.
struct Roll {
    /// The stack around whose assembly this one is assembled.
    outer: Option<(StackId, Vec<CheckName>)>,
}

impl Roll {
    fn open(id: StackId) -> Self {
        Self {
            outer: OPEN.replace(Some((id, Vec::new()))),
        }
    }

    fn close(self) -> Vec<CheckName> {
        let names = OPEN.take().map(|(_, names)| names);
        names.unwrap_or_default()
    }
}

impl Drop for Roll {
    fn drop(&mut self) {
        OPEN.set(self.outer.take());
    }
}

/// Registers the name of a check with the stack that is being assembled, if one is.
pub(super) fn register(name: &CheckName) -> CheckName {
    OPEN.with_borrow_mut(|open| match open {
        Some((stack, names)) => {
            let name = name.stamped(Some(*stack));
            names.push(name.clone());
            name
        }
        None => name.stamped(None),
    })
}
