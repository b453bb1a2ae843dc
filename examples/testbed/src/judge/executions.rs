//! Executions of workflows, as the commands of the program show them and as a step of a demo waits for them.

use serde_json::Value;

use super::{
    broken::{Held, broken, ensure, until},
    town::Town,
};

impl Town {
    /// Starts an execution with these arguments of `workflow start`, and returns its id. It is asked for until the control
    /// plane answers, so the arguments must contain a key.
    ///
    /// # Errors
    /// When the control plane gives no answer in time, or refuses.
    pub async fn starts(&self, arguments: &[&str]) -> Held<String> {
        let command = [&["workflow", "start"], arguments].concat();
        until("the execution is started", async || {
            let said = self.command(&command).await?;
            match said.split_whitespace().next() {
                Some(id) => Ok(id.to_owned()),
                None => broken("`workflow start` printed nothing"),
            }
        })
        .await
    }

    /// Gives a word to executions, with these arguments of `workflow`, until it is taken.
    ///
    /// # Errors
    /// When it is not taken in time.
    pub async fn tells(&self, arguments: &[&str]) -> Held {
        let command = [&["workflow"], arguments].concat();
        until("the word is taken", async || {
            self.command(&command).await.map(|_| ())
        })
        .await
    }

    /// Returns an execution as `workflow explain` shows it, in JSON.
    ///
    /// # Errors
    /// When there is none, or the control plane gives no answer.
    pub async fn execution(&self, id: &str) -> Held<Value> {
        let said = self.command(&["workflow", "explain", id, "--json"]).await?;
        Ok(serde_json::from_str(&said)?)
    }

    /// Waits until the machine `name` of a live execution is in its run number `run` and waits for something that contains
    /// `words`.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn machine_waits(&self, id: &str, name: &str, run: u64, words: &str) -> Held {
        until("the machine waits", async || {
            let execution = self.execution(id).await?;
            let machines = execution["live"]["machines"].as_array();
            let machine = machines.and_then(|all| all.iter().find(|it| it["name"] == name));
            let fits = |it: &Value| it["run"] == run && it["wait"].to_string().contains(words);
            ensure(machine.is_some_and(fits), || format!("{id} is {execution}"))
        })
        .await
    }

    /// Waits until an execution has ended with this outcome. Returns the states of its machines.
    ///
    /// # Errors
    /// When it has not ended in time, or otherwise.
    pub async fn ends(&self, id: &str, outcome: &str) -> Held<Value> {
        let ended = until("the execution has ended", async || {
            let execution = self.execution(id).await?;
            ensure(!execution["ended"].is_null(), || {
                format!("{id} is {execution}")
            })?;
            Ok(execution["ended"].clone())
        })
        .await?;
        ensure(ended["outcome"] == outcome, || {
            format!("{id} has ended as {ended}, expected {outcome}")
        })?;
        Ok(ended["states"].clone())
    }
}
