//! Laws of functions: what their info declares holds for their calls.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures::future::{BoxFuture, Either, select};
use jiff::Timestamp;

use super::Violation;
use crate::{
    FencingToken, OperationFunction, Probe,
    operation::{
        Answer, EffectKey, Fence, FunctionInfo, FunctionRequest, Powers, Ran, Repeat, Required,
        Requirement,
    },
    plugin,
    push::Guard,
};

/// Maximum number of calls while work is in progress. After that, the work counts as never done.
const PATIENCE: u32 = 1_000;

/// Maximum number of times that a function may ask for assets before it answers.
const ROUNDS: usize = 5;

type Wait = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;
type Ledger = Arc<dyn Fn(&EffectKey) -> u64 + Send + Sync>;
type Result<T = ()> = std::result::Result<T, Violation>;
type Ended = std::result::Result<Answer, plugin::Error>;

/// Tests the laws of functions. What a function declares in its info decides which laws are tested.
///
/// The suite answers requirements from the reader of the request, without states. Each run of the suite uses the keys of
/// the requests with their run and the next two, so give each request its own execution or step, and a token above 0.
///
/// ```
/// use plugin_sdk::{conformance::FunctionSuite, testing::{self, InMemoryEffects}};
///
/// # futures::executor::block_on(async {
/// let press = InMemoryEffects::new("print-posters"); // yours instead
/// let journal = press.clone();
/// let suite = FunctionSuite::new().ledger(move |key| journal.effects(key));
/// suite.run(&press, [testing::function_request()]).await
/// # }).unwrap();
/// ```
#[derive(Clone, Default)]
pub struct FunctionSuite {
    wait: Option<Wait>,
    ledger: Option<Ledger>,
}

impl fmt::Debug for FunctionSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionSuite").finish_non_exhaustive()
    }
}

impl FunctionSuite {
    /// Makes a suite without a ledger of effects, that does not wait between calls.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the function that counts the effects with a key in production. Needed for keyed functions.
    #[must_use]
    pub fn ledger(self, effects: impl Fn(&EffectKey) -> u64 + Send + Sync + 'static) -> Self {
        Self {
            ledger: Some(Arc::new(effects)),
            ..self
        }
    }

    /// Sets the function that waits for a time, real or virtual. Without it, the suite calls again at once, and a call that
    /// never answers is not noticed.
    #[must_use]
    pub fn waiting(
        self,
        wait: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            wait: Some(Arc::new(wait)),
            ..self
        }
    }

    /// Calls `function` with each of `requests` and tests the laws. An error of the function is an answer like others.
    ///
    /// # Errors
    /// The first law that does not hold.
    pub async fn run(
        &self,
        function: &(impl OperationFunction + ?Sized),
        requests: impl IntoIterator<Item = FunctionRequest>,
    ) -> Result {
        let (info, powers) = declared(function)?;
        for request in requests {
            let trial = Trial {
                suite: self,
                function,
                probe: None,
                info: &info,
                powers: &powers,
                request,
            };
            trial.run().await?;
        }
        Ok(())
    }
}

/// What `function` declares: its info, and its powers, ready to be compared with answers.
fn declared(function: &(impl OperationFunction + ?Sized)) -> Result<(FunctionInfo, Powers)> {
    let info = function.info();
    let broken = |law, found: &dyn fmt::Debug| Violation::new(&info.name, law, found);
    if function.info() != info {
        return Err(broken("the info is always the same", &info));
    }
    let powers = info.powers().map_err(|error| {
        broken(
            "the declared powers can be read",
            &crate::with_causes(&error),
        )
    })?;
    Ok((info, powers))
}

/// The test of one request.
struct Trial<'a, P: ?Sized> {
    suite: &'a FunctionSuite,
    function: &'a P,
    /// The probe of the function, if its laws are tested.
    probe: Option<&'a dyn Probe>,
    info: &'a FunctionInfo,
    powers: &'a Powers,
    request: FunctionRequest,
}

impl<P: OperationFunction + ?Sized> Trial<'_, P> {
    async fn run(&self) -> Result {
        let first = self.ends(self.attempt(0, 1)).await?;
        match self.info.repeat {
            Repeat::Safe => self.safe(&first).await?,
            Repeat::Keyed => self.keyed(&first).await?,
            _ => {}
        }
        if self.info.guard == Guard::Guarded && first.is_ok() {
            self.guarded().await?;
        }
        self.cancelled().await
    }

    async fn safe(&self, first: &Ended) -> Result {
        let again = self.ends(self.attempt(0, 2)).await?;
        match again == *first {
            true => Ok(()),
            false => Err(self.broken(
                "a safe function answers equal requests equally",
                (first, again),
            )),
        }
    }

    /// A second attempt makes no second effect, and a new run makes its own.
    async fn keyed(&self, first: &Ended) -> Result {
        let law = "the effects of a keyed function can be counted; give the suite a ledger";
        let Some(ledger) = &self.suite.ledger else {
            return Err(self.broken(law, "no ledger"));
        };
        let key = |run| self.attempt(run, 1).key;
        let once = ledger(&key(0));
        let _ = self.ends(self.attempt(0, 2)).await?;
        let law = "a keyed function that is called twice with one key has one effect";
        let twice = ledger(&key(0));
        if once > 1 || (first.is_ok() && twice != once) || twice > 1 {
            return Err(self.broken(law, (once, twice)));
        }
        let next = self.ends(self.attempt(1, 3)).await?;
        let after = ledger(&key(1));
        if first.is_ok() && next.is_ok() && after != once {
            let law = "another run is another key, with an effect of its own";
            return Err(self.broken(law, (once, after)));
        }
        Ok(())
    }

    /// An attempt of an older owner is refused and has no effect.
    async fn guarded(&self) -> Result {
        let mut old = self.attempt(0, 9);
        old.fence.token = FencingToken(old.fence.token.0.saturating_sub(1));
        let count = |key: &EffectKey| self.suite.ledger.as_ref().map(|ledger| ledger(key));
        let before = count(&old.key);
        let key = old.key.clone();
        let refused = self.function.run(old).await;
        if !matches!(refused, Err(plugin::Error::Fenced { .. })) || count(&key) != before {
            let law = "a guarded function refuses an older fence as fenced, without an effect";
            return Err(self.broken(law, refused));
        }
        Ok(())
    }

    /// A call that is told of the cancellation ends within the deadline, with an answer or an error.
    async fn cancelled(&self) -> Result {
        let call = self.ends(self.attempt(2, 4).cancelled(true));
        let Some(wait) = &self.suite.wait else {
            return call.await.map(drop);
        };
        let late = wait(self.info.deadline);
        match select(Box::pin(call), late).await {
            Either::Left((ended, _)) => ended.map(drop),
            Either::Right(_) => Err(self.broken(LATE, "no answer")),
        }
    }

    /// Attempt number `attempt` of the run that is `run` after that of the request.
    fn attempt(&self, run: u32, attempt: u32) -> FunctionRequest {
        let mut request = self.request.clone();
        request.key.run += run;
        request.fence = Fence::new(request.fence.token, attempt);
        let deadline = request.now.checked_add(self.info.deadline);
        request.deadline = deadline.unwrap_or(Timestamp::MAX);
        request
    }

    /// Calls until the function answers or fails: gives it what it asks for, and waits while it works.
    async fn ends(&self, mut request: FunctionRequest) -> Result<Ended> {
        let mut asked: BTreeMap<String, Requirement> = BTreeMap::new();
        let (mut rounds, mut waited) = (0, Duration::ZERO);
        for _ in 0..PATIENCE {
            match self.function.run(request.clone()).await {
                Err(error) => return Ok(Err(error)),
                Ok(Ran::Done(answer)) => return self.allowed(answer).map(Ok),
                Ok(Ran::InProgress { check_again_in }) => {
                    self.is_not_given_up(&request.key).await?;
                    waited += check_again_in;
                    if request.cancelled && waited > self.info.deadline {
                        return Err(self.broken(LATE, waited));
                    }
                    if let Some(wait) = &self.suite.wait {
                        wait(check_again_in).await;
                    }
                }
                Ok(Ran::Needs(needs)) => {
                    rounds += 1;
                    let before = asked.clone();
                    asked.extend(needs);
                    if rounds > ROUNDS || asked == before {
                        let law = "a function asks for something new, five times at most";
                        return Err(self.broken(law, asked));
                    }
                    self.give(&mut request, &asked)?;
                }
            }
        }
        Err(self.broken("work of a function ends", "still in progress"))
    }

    fn give(&self, request: &mut FunctionRequest, asked: &BTreeMap<String, Requirement>) -> Result {
        for (name, requirement) in asked {
            let law = "a requirement matches no more than the limit";
            let found = requirement.find(&request.reader);
            let found = found.map_err(|over| self.broken(law, over))?;
            let read = found.into_iter().map(|it| Required::new(it, request.now));
            request.required.insert(name.clone(), read.collect());
        }
        Ok(())
    }

    fn allowed(&self, answer: Answer) -> Result<Answer> {
        if let Err(error) = answer.check() {
            return Err(self.broken("an answer keeps its limits", error));
        }
        match self.powers.refuse(&answer) {
            Some(refused) => {
                Err(self.broken("an answer contains nothing outside the powers", refused))
            }
            None => Ok(answer),
        }
    }

    fn broken(&self, law: &'static str, found: impl fmt::Debug) -> Violation {
        Violation::new(&self.info.name, law, found)
    }
}

const LATE: &str = "a cancelled call ends within the deadline";

mod probe;
#[cfg(test)]
mod tests;
