//! Laws of probes: a probe says of a key what the calls with it did.

use super::{FunctionSuite, Result, Trial, declared};
use crate::{
    OperationFunction, Probe,
    operation::{EffectKey, FunctionRequest, Probed},
};

impl FunctionSuite {
    /// Calls `function` once with each of `requests`, and tests what `probe` says of their keys before, meanwhile and after.
    ///
    /// Needs a [ledger](Self::ledger) and calls that do not fail. The run of each request and the next one must be new: no
    /// call was made with their keys.
    ///
    /// ```
    /// use plugin_sdk::{conformance::FunctionSuite, testing::{self, InMemoryEffects}};
    ///
    /// # futures::executor::block_on(async {
    /// let press = InMemoryEffects::new("print-posters"); // yours instead, with its probe
    /// let journal = press.clone();
    /// let suite = FunctionSuite::new().ledger(move |key| journal.effects(key));
    /// suite.run_probe(&press, &press, [testing::function_request()]).await
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The first law that does not hold, or that cannot be tested because there is no ledger or a call fails.
    pub async fn run_probe(
        &self,
        function: &(impl OperationFunction + ?Sized),
        probe: &dyn Probe,
        requests: impl IntoIterator<Item = FunctionRequest>,
    ) -> Result {
        let (info, powers) = declared(function)?;
        for request in requests {
            let trial = Trial {
                suite: self,
                function,
                probe: Some(probe),
                info: &info,
                powers: &powers,
                request,
            };
            trial.probed(probe).await?;
        }
        Ok(())
    }
}

impl<P: OperationFunction + ?Sized> Trial<'_, P> {
    async fn probed(&self, probe: &dyn Probe) -> Result {
        let (key, next) = (self.attempt(0, 1).key, self.attempt(1, 1).key);
        for key in [&key, &next] {
            let found = self.asked(probe, key).await?;
            if found != Probed::NotHappened {
                let law = "before a call with a key, its effect has not happened";
                return Err(self.broken(law, found));
            }
        }
        let answer = self.ends(self.attempt(0, 1)).await?.map_err(|error| {
            let law = "a probe is tested with a call that does not fail; use another request";
            self.broken(law, error)
        })?;
        let found = self.asked(probe, &key).await?;
        let happened = Probed::Happened(answer);
        if found != happened {
            let law = "after a call, its effect has happened, with the answer of the call";
            return Err(self.broken(law, (found, happened)));
        }
        let found = self.asked(probe, &next).await?;
        if found != Probed::NotHappened {
            let law = "the effect of a run is not that of another run";
            return Err(self.broken(law, found));
        }
        Ok(())
    }

    /// What the probe says of `key`: twice the same, and without an effect.
    async fn asked(&self, probe: &dyn Probe, key: &EffectKey) -> Result<Probed> {
        let Some(ledger) = &self.suite.ledger else {
            let law =
                "the effects of a function with a probe can be counted; give the suite a ledger";
            return Err(self.broken(law, "no ledger"));
        };
        let effects = || [0, 1].map(|run| ledger(&self.attempt(run, 1).key));
        let before = effects();
        let first = probe.probe(key.clone()).await;
        let again = probe.probe(key.clone()).await;
        let after = effects();
        if after != before {
            return Err(self.broken("a probe has no effect", (before, after)));
        }
        if again != first {
            let law = "a probe that is asked twice says the same";
            return Err(self.broken(law, (first, again)));
        }
        first.map_err(|error| self.broken("a probe whose callee can be asked answers", error))
    }

    /// While work goes on, the probe does not say that nothing comes of it any more.
    pub(super) async fn is_not_given_up(&self, key: &EffectKey) -> Result {
        let Some(probe) = self.probe else {
            return Ok(());
        };
        match probe.probe(key.clone()).await {
            Ok(Probed::NotHappened) => {
                let law = "while work is in progress, its effect may still happen";
                Err(self.broken(law, Probed::NotHappened))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    use async_trait::async_trait;
    use futures::executor::block_on;

    use super::*;
    use crate::{
        operation::{Answer, Ran, from_fn},
        plugin,
        testing::{self, InMemoryEffects},
    };

    /// A probe of a press, with one fault.
    struct Faulty {
        press: InMemoryEffects,
        fault: Fault,
        asked: AtomicU64,
    }

    #[derive(Debug, Clone, Copy)]
    enum Fault {
        SaysYes,
        SaysNo,
        ForgetsTheAnswer,
        IgnoresTheRun,
        Prints,
        ChangesItsMind,
        Fails,
    }

    #[async_trait]
    impl Probe for Faulty {
        async fn probe(&self, key: EffectKey) -> std::result::Result<Probed, plugin::Error> {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed);
            match self.fault {
                Fault::SaysYes => Ok(Probed::Happened(Answer::new())),
                Fault::SaysNo => Ok(Probed::NotHappened),
                Fault::ForgetsTheAnswer => match self.press.probe(key).await? {
                    Probed::Happened(_) => Ok(Probed::Happened(Answer::new())),
                    other => Ok(other),
                },
                Fault::IgnoresTheRun => self.press.probe(EffectKey { run: 1, ..key }).await,
                Fault::Prints => {
                    let mut request = testing::function_request();
                    request.key = key;
                    self.press.run(request).await?;
                    Ok(Probed::NotHappened)
                }
                Fault::ChangesItsMind if asked == 0 => Ok(Probed::InProgress),
                Fault::ChangesItsMind => self.press.probe(key).await,
                Fault::Fails => Err(plugin::Error::transient("no answer")),
            }
        }
    }

    fn suite(press: &InMemoryEffects) -> FunctionSuite {
        let journal = press.clone();
        FunctionSuite::new().ledger(move |key| journal.effects(key))
    }

    /// A request whose answer is not the empty one.
    fn request() -> FunctionRequest {
        testing::function_request().with_input("hamlet")
    }

    #[test]
    fn r25_every_fault_of_a_probe_is_reported() {
        for (fault, law) in [
            (
                Fault::SaysYes,
                "before a call with a key, its effect has not happened",
            ),
            (
                Fault::SaysNo,
                "after a call, its effect has happened, with the answer of the call",
            ),
            (
                Fault::ForgetsTheAnswer,
                "after a call, its effect has happened, with the answer of the call",
            ),
            (
                Fault::IgnoresTheRun,
                "the effect of a run is not that of another run",
            ),
            (Fault::Prints, "a probe has no effect"),
            (
                Fault::ChangesItsMind,
                "a probe that is asked twice says the same",
            ),
            (Fault::Fails, "a probe whose callee can be asked answers"),
        ] {
            let press = InMemoryEffects::new("press");
            let probe = Faulty {
                press: press.clone(),
                fault,
                asked: AtomicU64::new(0),
            };
            let broken = block_on(suite(&press).run_probe(&press, &probe, [request()]));
            assert_eq!(broken.unwrap_err().law(), law, "{fault:?}");
        }
    }

    #[test]
    fn r25_probe_is_tested_with_a_ledger_and_a_call_that_does_not_fail() {
        let press = InMemoryEffects::new("press");
        let broken = block_on(FunctionSuite::new().run_probe(&press, &press, [request()]));
        assert_eq!(
            broken.unwrap_err().law(),
            "the effects of a function with a probe can be counted; give the suite a ledger"
        );
        let fails = from_fn("fails", |_: FunctionRequest| async {
            Err(plugin::Error::permanent("no paper"))
        });
        let broken = block_on(suite(&press).run_probe(&fails, &press, [request()]));
        assert_eq!(
            broken.unwrap_err().law(),
            "a probe is tested with a call that does not fail; use another request"
        );
    }

    /// A press whose first call only begins the work.
    fn slow(press: &InMemoryEffects) -> impl OperationFunction {
        let (press, calls) = (press.clone(), AtomicU64::new(0));
        from_fn(press.info(), move |request: FunctionRequest| {
            let (press, before) = (press.clone(), calls.fetch_add(1, Ordering::Relaxed));
            async move {
                match before {
                    0 => Ok(Ran::in_progress(Duration::from_secs(1))),
                    _ => press.run(request).await,
                }
            }
        })
    }

    #[test]
    fn r25_probe_that_gives_up_work_in_progress_is_reported() {
        let press = InMemoryEffects::new("press");
        let broken = block_on(suite(&press).run_probe(&slow(&press), &press, [request()]));
        let law = "while work is in progress, its effect may still happen";
        assert_eq!(broken.unwrap_err().law(), law);
    }
}
