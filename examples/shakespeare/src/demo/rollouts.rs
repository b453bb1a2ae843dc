//! Judges a rollout from outside: the clusters are updated one after the other in the policy's order, and each one is
//! stable for the policy's bake before the next one changes.

use std::collections::BTreeMap;

use testbed::production::{
    api::{Change, Line},
    clock::now_micros,
};

use super::{
    broken::{Held, broken, ensure, until},
    evidence::{self, Mark},
    session::Session,
};

impl Session {
    /// Returns every cluster's job, as cell and resource name.
    pub(super) fn every_job(&self) -> Vec<(String, String)> {
        let clusters = self.clusters().into_iter();
        clusters
            .map(|cluster| (cluster, evidence::job_resource()))
            .collect()
    }

    /// Returns a new version without defects: the number of the current one, a dot, and a counter.
    pub(super) fn fresh_version(&mut self) -> String {
        let number: String = self
            .manifest
            .version
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        self.versions += 1;
        format!("{number}.{}", self.versions)
    }

    /// Returns the policy's bake of each cluster, in seconds.
    pub(super) fn least_bake(&self) -> u64 {
        self.manifest.rollout.bake
    }

    /// Expects that since `mark` the clusters' jobs were updated one after the other in the policy's order, the first
    /// one as the canary. Returns a text with the time for which each one was stable before the next one changed.
    pub(super) fn one_by_one(&self, mark: &Mark) -> Held<String> {
        let jobs = job_lines(evidence::since(&self.town.place, mark)?);
        let policy = &self.manifest.rollout;
        let canary = policy.canary.as_ref().map_or(0, |canary| canary.bake);
        let mut words = Vec::new();
        let mut before: Option<(&str, u64)> = None;
        let rest = self.clusters().into_iter();
        let rest = rest.filter(|cluster| !policy.domains.contains(cluster));
        for (nth, cluster) in policy.domains.iter().cloned().chain(rest).enumerate() {
            let lines = jobs.get(&cluster).map(Vec::as_slice).unwrap_or_default();
            let Some(asked) = lines.iter().find(|line| line.change == Change::Spec) else {
                return broken(format_args!("{cluster}'s job was not changed"));
            };
            if let Some((name, done)) = before {
                let rested = asked.at_micros.saturating_sub(done);
                let least = if nth == 1 {
                    canary.max(policy.bake)
                } else {
                    policy.bake
                };
                ensure(rested >= least * 1_000_000, || {
                    format!(
                        "{cluster} was changed {rested} us after {name} was done, expected at least {least} s"
                    )
                })?;
                words.push(format!("{name}, {:.1} s", rested as f64 / 1e6));
            }
            let last = lines.iter().map(|line| line.at_micros).max();
            let last = last.unwrap_or(asked.at_micros);
            before = Some((asked.cell.as_str(), last));
        }
        words.extend(before.map(|(name, _)| name.to_owned()));
        Ok(words.join(", then "))
    }

    /// Waits until no rollout is under way and all assets are settled, so that the next step begins from there. It uses
    /// the status of the control plane, which is not evidence here.
    pub(super) async fn rests(&self) -> Held {
        until("no rollout is under way", async || {
            let status = self.town.status().await?;
            let rollouts = status["rollouts"].as_array().cloned().unwrap_or_default();
            let at_rest = !rollouts.is_empty() && rollouts.iter().all(|view| view["live"] == false);
            ensure(at_rest && status["enforcement"]["unsettled"] == 0, || {
                format!("{rollouts:?}")
            })
        })
        .await
    }

    /// Expects that from now on only the manifest's version answers requests.
    pub(super) async fn only_this_version_answers(&mut self) -> Held {
        let from = now_micros();
        self.requests_pass(60).await?;
        let wanted = Some(self.manifest.version.clone());
        let mut later = self
            .attempts()
            .into_iter()
            .filter(|attempt| attempt.start_micros > from && !attempt.failed());
        let other = later.find(|attempt| attempt.version != wanted);
        ensure(other.is_none(), || {
            format!("an old version answered: {other:?}")
        })
    }
}

/// Returns the journal lines about each cluster's job and its tasks.
fn job_lines(journals: BTreeMap<String, Vec<Line>>) -> BTreeMap<String, Vec<Line>> {
    let of_job = |line: &Line| line.resource.starts_with("jobs/");
    let cells = journals.into_iter();
    cells
        .map(|(cell, lines)| (cell, lines.into_iter().filter(of_job).collect()))
        .collect()
}
