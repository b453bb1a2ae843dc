//! Judges a rollout from outside: the clusters are updated one after the other in the policy's order, and each one is
//! stable for the policy's bake before the next one changes.

use std::collections::BTreeMap;

use super::{
    broken::{Held, broken, ensure},
    evidence::{self, Mark},
    session::Session,
    wanted::{Intent, Pace},
};
use crate::production::{
    api::{Change, Line},
    clock::now_micros,
};

impl<I: Intent> Session<I> {
    /// Returns every cluster's job, as cell and resource name.
    pub fn every_job(&self) -> Vec<(String, String)> {
        let clusters = self.clusters().into_iter();
        clusters
            .map(|cluster| (cluster, evidence::job_resource()))
            .collect()
    }

    /// Expects that since `mark` the clusters' jobs were updated one after the other in the policy's order, the first
    /// one as the canary. Returns a text with the time for which each one was stable before the next one changed.
    pub fn one_by_one(&self, mark: &Mark) -> Held<String> {
        let jobs = job_lines(evidence::since(&self.town.place, mark)?);
        let Pace {
            order,
            canary_bake,
            bake,
        } = self.wanted().pace;
        let mut words = Vec::new();
        let mut before: Option<(&str, u64)> = None;
        let rest = self.clusters().into_iter();
        let rest = rest.filter(|cluster| !order.contains(cluster));
        for (nth, cluster) in order.iter().cloned().chain(rest).enumerate() {
            let lines = jobs.get(&cluster).map(Vec::as_slice).unwrap_or_default();
            let Some(asked) = lines.iter().find(|line| line.change == Change::Spec) else {
                return broken(format_args!("{cluster}'s job was not changed"));
            };
            if let Some((name, done)) = before {
                let rested = asked.at_micros.saturating_sub(done);
                let least = if nth == 1 {
                    canary_bake.max(bake)
                } else {
                    bake
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

    /// Expects that from now on only the manifest's version answers requests.
    pub async fn only_this_version_answers(&mut self) -> Held {
        let from = now_micros();
        self.requests_pass(60).await?;
        let wanted = Some(self.wanted().version);
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
