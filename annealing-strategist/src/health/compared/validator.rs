//! [`Compared`], the validator: collects the rows of a rollout, each window once, and judges them.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::lock::Mutex;
use plugin_sdk::{
    BoxError, Expression, Finding, HealthRequest, Judgement, MetricQuery, Quantity, RolloutId,
    Watched, Windows,
};
use prodspec_model::{AssetId, Digest, policy::Count};
use serde_json::json;

use super::{
    Rule,
    history::{FIT, History, MEAN},
    judge::{Evidence, Outcome},
    row::{Row, Unit, Value},
};
use crate::health::expression::{Of, Readings, Table, counted};

/// Maximum number of moved units that are compared, and of units to compare with.
const MOVED: usize = 64;
const CONTROL: usize = 32;
/// Maximum number of windows that are read at once, after an absence.
const WINDOWS: i64 = 1_000;
/// Maximum number of comparisons whose rows are kept.
const KEPT: usize = 1_024;
/// Maximum number of rows of a comparison that are kept for a rule that is edited.
const ROWS: usize = 2_000;

/// A rule that compares units.
pub(in crate::health) struct Compared {
    pub(in crate::health) rule: Rule,
    pub(in crate::health) count: Count,
    pub(in crate::health) policy: (AssetId, Digest),
    /// The quantity, and the number of all events if it is a share.
    pub(in crate::health) expressions: Vec<Expression>,
    pub(in crate::health) of: Vec<Arc<Of>>,
    pub(in crate::health) over: Duration,
    pub(in crate::health) readings: Arc<Readings>,
}

/// The rows of all rollouts.
#[derive(Default)]
pub(in crate::health) struct Memory(Mutex<VecDeque<(Key, Arc<Mutex<Rows>>)>>);

/// A comparison: of one rollout, by one policy, of one quantity. Not by one rule: its text may change.
type Key = (RolloutId, AssetId, Vec<Expression>, Duration);

/// The rows of one comparison.
#[derive(Default)]
struct Rows {
    /// The values before the rollout, of all units that may be compared. `None`: they were not read yet.
    history: Option<History>,
    rows: Vec<Row>,
    /// The moved units that are compared.
    moved: BTreeSet<AssetId>,
    /// The last window that was read.
    last: Option<Windows>,
    evidence: Option<Evidence>,
    /// The last outcome, and the units that needed windows then.
    judged: Option<(Vec<AssetId>, Outcome)>,
}

impl Memory {
    async fn of(&self, key: Key) -> Arc<Mutex<Rows>> {
        let mut all = self.0.lock().await;
        let known = all.iter().position(|(known, _)| *known == key);
        let known = known.and_then(|at| all.remove(at));
        all.truncate(KEPT - 1);
        // The one that was used last is forgotten last.
        let (key, rows) = known.unwrap_or_else(|| (key, Arc::default()));
        all.push_front((key, rows.clone()));
        rows
    }
}

impl Rows {
    /// Adds the units that have been updated to those that are compared, if there is room.
    fn draw(&mut self, request: &HealthRequest) {
        let room = MOVED.saturating_sub(self.moved.len());
        let updated = request.updated.iter().map(|it| &it.asset);
        let new = updated.filter(|it| self.has_history(it) && !self.moved.contains(*it));
        let new: Vec<AssetId> = new.take(room).cloned().collect();
        self.moved.extend(new);
    }

    fn has_history(&self, unit: &AssetId) -> bool {
        let history = self.history.as_ref();
        history.is_some_and(|it| it.units.contains_key(unit))
    }

    /// The units to compare with.
    fn control<'a>(&'a self, request: &'a HealthRequest) -> impl Iterator<Item = &'a Watched> {
        let control = request.control.iter();
        let control = control.filter(|it| self.has_history(&it.asset));
        control.take(CONTROL)
    }

    fn judged(&mut self, rule: &Rule, request: &HealthRequest) -> Outcome {
        let awaited = match self.control(request).next() {
            Some(_) => {
                let updated = request.updated.iter().map(|it| &it.asset);
                let awaited = updated.filter(|it| self.moved.contains(*it));
                awaited.cloned().collect()
            }
            None => Vec::new(),
        };
        let nothing = History::default();
        let history = self.history.as_ref().unwrap_or(&nothing);
        // A rule that was edited judges the same rows.
        let kept = self.evidence.take().filter(|it| it.is_by(rule));
        let is_kept = kept.is_some();
        let new = || Evidence::new(rule.clone(), request.rollout);
        let evidence = self.evidence.insert(kept.unwrap_or_else(new));
        let has_new = evidence.take(&self.rows, history);
        if self.rows.len() > ROWS {
            let old = self.rows.drain(..ROWS / 2).len();
            evidence.forget(old);
        }
        match &self.judged {
            Some((then, outcome)) if is_kept && !has_new && *then == awaited => outcome.clone(),
            _ => {
                let outcome = evidence.outcome(history, &awaited);
                self.judged = Some((awaited, outcome.clone()));
                outcome
            }
        }
    }
}

impl Compared {
    /// The finding about a rollout. `None`: it has updated no asset.
    pub(in crate::health) async fn finding(
        &self,
        request: &HealthRequest,
        memory: &Memory,
    ) -> Option<Finding> {
        if request.updated.is_empty() {
            return None;
        }
        let key = (request.rollout, self.policy.0.clone());
        let key = (key.0, key.1, self.expressions.clone(), self.over);
        let rows = memory.of(key).await;
        let mut rows = rows.lock().await;
        let outcome = match self.read(request, &mut rows).await {
            Err(error) => Outcome::new(Judgement::Unknown, plugin_sdk::with_causes(&*error)),
            Ok(()) => rows.judged(&self.rule, request),
        };
        Some(self.shown(outcome, &rows, request))
    }

    fn shown(&self, outcome: Outcome, rows: &Rows, request: &HealthRequest) -> Finding {
        let (judgement, note) = counted(self.count, outcome.judgement);
        let evidence = json!({
            "rule": self.rule, "count": self.count, "policy": self.policy,
            "expressions": self.expressions, "incarnation": request.to,
            "rows": rows.evidence.as_ref().map(Evidence::digest), "windows": rows.rows.len(), "last": rows.last,
            "outcome": outcome,
        });
        let finding = Finding::new(judgement, format!("{}{note}", outcome.why));
        finding.validator(self.rule.name.clone()).because(evidence)
    }

    /// Reads the windows since the last look.
    async fn read(&self, request: &HealthRequest, rows: &mut Rows) -> Result<(), BoxError> {
        if rows.history.is_none() {
            rows.history = Some(self.history(request).await?);
        }
        rows.draw(request);
        let newest = Windows::closed(self.over, Windows::SETTLE, request.now);
        let since = match &rows.last {
            Some(last) => Some(last.last),
            None => request.updated.iter().map(|it| it.since).min(),
        };
        let since = since.unwrap_or(newest.last);
        let length = self.over.as_secs().max(1) as i64;
        let count = newest.last.duration_since(since).as_secs() / length;
        let count = count.clamp(0, WINDOWS) as u32;
        if count == 0 {
            return Ok(());
        }
        let windows = newest.many(count);
        let tables = self.tables(windows, request).await?;
        let moved = request.updated.iter();
        let moved = moved.filter(|it| rows.moved.contains(&it.asset));
        let lines = |it: &Watched| {
            let line = self.values(request, &it.asset, &tables, windows);
            (it.clone(), line)
        };
        let moved: Vec<_> = moved.map(lines).collect();
        let control: Vec<_> = rows.control(request).map(lines).collect();
        for (at, end) in windows.ends().enumerate() {
            let start = end - self.over;
            let units = |all: &[(Watched, Vec<Option<Value>>)]| -> Vec<Unit> {
                let counts = all.iter().filter(|(unit, _)| unit.since <= start);
                let values = counts.map(|(unit, line)| (unit.asset.clone(), line[at]));
                values.collect()
            };
            let row = Row {
                end,
                stage: request.stage.clone(),
                moved: units(&moved),
                control: units(&control),
            };
            if !row.moved.is_empty() {
                rows.rows.push(row);
            }
        }
        rows.last = Some(newest);
        Ok(())
    }

    /// The values of all units before the rollout. Without any, nothing is judged.
    async fn history(&self, request: &HealthRequest) -> Result<History, BoxError> {
        let mut history = History::default();
        let Some(began) = request.began else {
            return Ok(history);
        };
        let many = if self.rule.than_past { MEAN + FIT } else { FIT };
        let windows = Windows::closed(self.over, Duration::ZERO, began).many(many);
        let mut tables = Vec::new();
        for expression in &self.expressions {
            let query = MetricQuery {
                expression: expression.clone(),
                windows,
            };
            tables.push(Arc::new(self.readings.read_past(query).await?));
        }
        let moved = request.updated.iter().chain(&request.under_way).take(MOVED);
        for unit in moved.chain(&request.control) {
            let values = self.values(request, &unit.asset, &tables, windows);
            history.units.insert(unit.asset.clone(), values);
        }
        Ok(history)
    }

    async fn tables(
        &self,
        windows: Windows,
        request: &HealthRequest,
    ) -> Result<Vec<Arc<Table>>, BoxError> {
        let mut tables = Vec::new();
        for expression in &self.expressions {
            let query = MetricQuery {
                expression: expression.clone(),
                windows,
            };
            let table = self.readings.read(query.clone()).await?;
            let age = request.now.duration_since(table.as_of());
            if let Some(why) = query.behind(table.as_of(), age) {
                return Err(why.into());
            }
            tables.push(table);
        }
        Ok(tables)
    }

    /// The value of a unit in each window.
    fn values(
        &self,
        request: &HealthRequest,
        unit: &AssetId,
        tables: &[Arc<Table>],
        windows: Windows,
    ) -> Vec<Option<Value>> {
        let asset = request.reader.get(unit);
        let key = asset.and_then(|asset| self.of.iter().map(|of| of(&asset)).collect());
        let Some(key): Option<Vec<String>> = key else {
            return vec![None; windows.count as usize];
        };
        let mut lines = tables.iter().map(|table| table.line(&key, windows));
        let first = lines.next().unwrap_or_default();
        let is_counter = |it: &Expression| matches!(it.of, Quantity::Counter(_));
        let seconds = match self.expressions.first().is_some_and(is_counter) {
            true => self.over.as_secs_f64(),
            false => 1.0,
        };
        match lines.next() {
            None => first
                .into_iter()
                .map(|it| it.map(|it| Value::Number(it / seconds)))
                .collect(),
            Some(whole) => first
                .into_iter()
                .zip(whole)
                .map(|(part, whole)| {
                    let (part, whole) = (part?.max(0.0).round(), whole?.max(0.0).round());
                    let (part, whole) = (part.min(whole) as u64, whole as u64);
                    Some(Value::Share { part, whole })
                })
                .collect(),
        }
    }
}
