//! An assembled stack of checks that knows the names of its checks and ensures that every delay carries a registered
//! name.

use std::{cell::RefCell, sync::Arc};

use futures::future::{BoxFuture, try_join};

use super::{
    Proceed,
    call::{self, Call, StackService},
};
use crate::{
    check::{CheckName, CheckRequest, StackId, Verdict},
    error::BoxError,
};

/// The reason why a stack of checks is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Several checks have the same name; the names are listed.
    #[error(
        "several checks of the stack are named {}: an override could not distinguish them; give each its own name, with `.named(\"...\")` on its `CheckLayer`, or with the option that the check itself offers",
        quoted(.0)
    )]
    Twice(Vec<CheckName>),
    /// A check has an empty name, the reserved name of the stack, or a name with control characters or outer spaces.
    #[error(
        "a check of the stack is named {}, which is {}; give it another name, with `.named(\"...\")` on its `CheckLayer`",
        quoted(std::slice::from_ref(.0)),
        if .0.as_str() == CheckName::STACK { "reserved for the stack itself" } else { "not a text that an operator can type" }
    )]
    Name(CheckName),
}

fn quoted(names: &[CheckName]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// A complete stack of check layers, assembled once and cheap to clone.
///
/// Every delay of the stack carries the name under which its check was registered. A delay added by a layer that is not
/// a [`CheckLayer`](super::CheckLayer) carries [`CheckName::STACK`], whatever name the layer wrote, and no override
/// lifts it. To give such a layer a name, make it a [`CheckPlugin`](crate::CheckPlugin) and add it with a
/// [`CheckLayer`](super::CheckLayer).
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
    /// Assembles a stack from the layers that `layers` puts around its argument.
    ///
    /// Names are registered while `layers` runs, because tower passes a layer only the service beneath it. Therefore
    /// apply all check layers inside `layers`. Delays of a check that was added to a service before carry
    /// [`CheckName::STACK`], like those of other layers.
    pub fn assemble<S>(layers: impl FnOnce(Proceed) -> S) -> Self
    where
        S: StackService<CheckRequest, Verdict>,
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

    /// The names of the checks in the stack, sorted. Overrides may use these names.
    pub fn names(&self) -> &[CheckName] {
        &self.names
    }

    /// Validates the names of the checks: each must be unique and usable in an override.
    ///
    /// # Errors
    /// The names that have to be changed, and how to change them.
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

    /// The checks of both stacks, which run at the same time. Their names must differ too.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        let mut names: Vec<_> = self.names.iter().chain(&*other.names).cloned().collect();
        names.sort();
        let stack = Arc::new(Both(self.stack, other.stack));
        let names = names.into();
        Self { stack, names }
    }

    /// Runs every check and returns the joined verdict.
    pub fn call(&self, request: CheckRequest) -> BoxFuture<'static, Result<Verdict, BoxError>> {
        self.stack.call(request)
    }
}

impl Default for Checks {
    /// An empty stack, which delays nothing.
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

/// Two stacks. Each answers alone: if one fails, both count as failed.
struct Both(
    Arc<dyn Call<CheckRequest, Verdict>>,
    Arc<dyn Call<CheckRequest, Verdict>>,
);

impl Call<CheckRequest, Verdict> for Both {
    fn call(&self, request: CheckRequest) -> BoxFuture<'static, Result<Verdict, BoxError>> {
        let both = try_join(self.0.call(request.clone()), self.1.call(request));
        Box::pin(async move {
            let (one, other) = both.await?;
            Ok(one.join(other))
        })
    }
}

/// A stack whose delays carry registered names only.
struct Signed<S> {
    service: S,
    id: StackId,
}

impl<S> Call<CheckRequest, Verdict> for Signed<S>
where
    S: StackService<CheckRequest, Verdict>,
{
    fn call(&self, request: CheckRequest) -> BoxFuture<'static, Result<Verdict, BoxError>> {
        let (service, id) = (self.service.clone(), self.id);
        Box::pin(async move {
            let verdict = call::call(&service, request).await?;
            let all = CheckName::from(CheckName::STACK);
            Ok(verdict.stamped(&all, &all, Some(id)))
        })
    }
}

thread_local! {
    /// The stack that is being assembled on this thread, with the names registered so far.
    static OPEN: RefCell<Option<(StackId, Vec<CheckName>)>> = const { RefCell::new(None) };
}

/// Collects the names of the checks of one stack while it is assembled.
struct Roll {
    /// The stack whose assembly contains this assembly, if there is one.
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

/// Registers the name of a check with the stack that is being assembled. Without one, the returned name is not
/// registered.
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
