//! Watches in intent, and what holds of their runs by the sealed incarnations, production and the durable rows.

use std::{collections::BTreeSet, time::Duration};

use annealing_workflow::{
    record::{Changed, KeyRecord},
    watch::WatchRecord,
};
use control_plane_store::{Record, Write};
use plugin_sdk::operation::{ExecutionId, StartCause};
use prodspec_model::{
    Asset, AssetId, Filter, Incarnation, Message,
    operation::{Concurrency, StatusIs, Watch as On, WatchOperation},
};
use serde::{Deserialize, Serialize};

use super::stored::Stored;
use crate::{
    executor::Instant,
    flows::{
        source::{Content, FIELDS},
        watches::Watch,
    },
    intent::{Kind, number, partition},
    world::State,
};

/// Time for which an asset must be in sync before a run starts.
const HELD_FOR: Duration = Duration::from_secs(20);
/// Time within which all changes are handled and their runs have ended, when all faults are healed.
const SLACK: Duration = Duration::from_secs(300);
/// How late a watch may be told of the state of an asset.
const LATE: Duration = Duration::from_secs(60);

type Judged = Result<(), (&'static str, String)>;

/// A field of the editable source, as an asset.
#[derive(Serialize, Deserialize)]
struct Size {
    size: u64,
}

impl Message for Size {
    const TYPE: &'static str = "simulation.v1.Size";
}

#[allow(clippy::expect_used, reason = "the constants form valid ids")]
fn size_id(field: usize) -> AssetId {
    AssetId::new(&format!("size/{}", FIELDS[field])).expect("the constant is a valid id")
}

/// The number of the field with this asset.
pub(super) fn field_of(asset: &AssetId) -> Option<usize> {
    (0..FIELDS.len()).find(|field| size_id(*field) == *asset)
}

/// The content of a field with this asset.
fn content(asset: Option<&Asset>) -> Content {
    let json = asset.map(|asset| asset.payload_json());
    let size = json.and_then(|json| serde_json::from_str::<Size>(json).ok());
    size.map(|it| it.size)
}

/// The asset of a field with this content.
#[allow(clippy::expect_used, reason = "all parts are built here and valid")]
pub(super) fn size(field: usize, content: Content) -> Option<Asset> {
    let builder = Asset::builder(size_id(field)).payload(&Size { size: content? });
    let builder = builder.expect("the size is valid");
    Some(builder.build().expect("the asset is complete"))
}

impl Watch {
    fn on(self) -> On {
        match self {
            Self::InSync => On::status([StatusIs::InSync])
                .held_for(HELD_FOR)
                .of(Filter::types([Kind::Guarded.type_name()])),
            _ => On::intent().of(Filter::types([Size::TYPE])),
        }
    }

    fn concurrency(self) -> Concurrency {
        match self {
            Self::Allow => Concurrency::Allow,
            Self::Replace => Concurrency::Replace,
            Self::Forbid | Self::InSync => Concurrency::Forbid,
        }
    }

    #[allow(clippy::expect_used, reason = "all parts are built here and valid")]
    fn asset(self) -> Asset {
        let mut wanted = WatchOperation::new(self.on(), self.operation());
        wanted.concurrency = self.concurrency();
        wanted.at_most = self.at_most();
        let builder = Asset::builder(self.id()).payload(&wanted);
        let builder = builder.expect("the watch is valid");
        builder.build().expect("the asset is complete")
    }
}

impl State {
    fn has_watches(&self) -> bool {
        self.scenario.watches && self.scenario.executions > 0
    }

    /// The assets of the watches.
    pub fn watches(&self) -> Vec<Asset> {
        match self.has_watches() {
            true => Watch::ALL.map(Watch::asset).into(),
            false => Vec::new(),
        }
    }

    /// The fields of the editable source as assets, each with its id; `None`: the source does not have the field.
    pub fn sizes(&self) -> Vec<(AssetId, Option<Asset>)> {
        if self.scenario.executions == 0 {
            return Vec::new();
        }
        let contents = self.flows.source.contents();
        let sizes = contents.into_iter().enumerate();
        let sizes = sizes.map(|(field, content)| (size_id(field), size(field, content)));
        sizes.collect()
    }

    /// Notes which contents are about to be sealed, or were. The store may have others if that was not acknowledged.
    pub fn seals(&mut self, no: u32, sizes: &[(AssetId, Option<Asset>)], acknowledged: bool) {
        let mut contents = [None; FIELDS.len()];
        for ((_, asset), has) in sizes.iter().zip(&mut contents) {
            *has = content(asset.as_ref());
        }
        let sealed = self.flows.watched.sealed.entry(no).or_default();
        if acknowledged {
            sealed.clear();
        }
        sealed.push(contents);
    }

    /// Notes which contents an incarnation has that was read from the store, whether or not its seal was acknowledged.
    pub fn is_sealed(&mut self, incarnation: &Incarnation) {
        let asset = |field| incarnation.asset(&size_id(field));
        let contents = std::array::from_fn(|field| content(asset(field).as_ref()));
        let sealed = &mut self.flows.watched.sealed;
        sealed.insert(incarnation.no().0, vec![contents]);
    }

    /// Notes which runs of watches a commit starts, before it is made: it may not be acknowledged although the store has it.
    pub fn submits_runs(&mut self, writes: &[Write]) {
        for write in writes {
            if let Write::Put(key, _) = write
                && let Some(run) = run_of_changed(key.as_str())
                && !self.flows.watched.runs.contains(&run)
            {
                self.flows.watched.submitted.insert(run, self.now);
            }
        }
    }

    /// Notes that an asset may have left its state in production, that a look at it has failed, or that its pin may move: from
    /// then on it is not known to be in sync before the next look (R20).
    pub fn stirs(&mut self, at: usize) {
        self.flows.watched.stirred.insert(at, self.now);
    }

    /// Notes which watches have a stored record: they count from then on, or from a little earlier.
    pub(super) fn remember_watches(&mut self, writes: &[Write]) {
        let of = |write: &Write| {
            let Write::Put(key, value) = write else {
                return None;
            };
            let name = key.as_str().strip_prefix(WatchRecord::KIND)?;
            let name = name.strip_prefix(&format!("/{}/", partition()))?;
            let watch = Watch::of(&AssetId::new(name).ok()?)?;
            let record: WatchRecord = serde_json::from_slice(value).ok()?;
            let progress = record.progress;
            Some((watch, progress.next_run - progress.counts.started))
        };
        for (watch, first) in writes.iter().filter_map(of) {
            if !self.flows.watched.taken.contains_key(&watch) {
                self.flows.watched.next.insert(watch, first);
                self.flows.watched.taken.insert(watch, self.now);
                for field in 0..FIELDS.len() {
                    let all = self.flows.watched.after(field, 0);
                    self.flows.watched.handled.insert((watch, field), all);
                }
            }
        }
    }

    /// R38 and R39: what holds of the runs of watches.
    pub(super) fn judge_watched(&mut self, execution: &ExecutionId, stored: &Stored) -> Judged {
        let Some(StartCause::Watch { watch, asset }) = stored.record().map(|it| &it.origin.cause)
        else {
            return Ok(());
        };
        let (Some(watch), Some(asset)) = (Watch::of(watch), asset) else {
            return Err(("R38", format!("there is no watch {watch} of one asset")));
        };
        self.judge_unseen_before(watch, stored)?;
        if self.flows.watched.runs.insert(execution.clone()) {
            let began = self.flows.watched.submitted.remove(execution);
            let began = began.unwrap_or(self.now);
            match watch {
                Watch::InSync => self.judge_condition(number(asset.as_str()), began)?,
                _ => self.judge_change(watch, execution, asset)?,
            }
        }
        self.judge_beside(watch, execution, stored, asset)
    }

    /// Judges the runs of a watch that were started before this one and were not seen, because their commits were not
    /// acknowledged: a run is judged by the one before it.
    fn judge_unseen_before(&mut self, watch: Watch, stored: &Stored) -> Judged {
        let key = stored.record().and_then(|it| it.key.clone());
        let run = key.and_then(|key| key.rsplit_once('#')?.1.parse::<u64>().ok());
        let Some(run) = run else {
            return Err(("R38", "its key has no number".to_owned()));
        };
        let next = self.flows.watched.next.entry(watch).or_insert(run);
        let unseen = *next..run;
        *next = (*next).max(run + 1);
        for run in unseen {
            let key = format!("{}#{run}", watch.id());
            let name = KeyRecord::name(&watch.workflow().as_str().into(), &key);
            if let Some((known, _)) = self.row::<KeyRecord>(&name)
                && let Some(stored) = self.stored(&known.execution)
            {
                self.judge_watched(&known.execution, &stored)?;
            }
        }
        Ok(())
    }

    /// R38: a run is about a change that no run was about before. R39: and which runs of its watch have not made.
    fn judge_change(&mut self, watch: Watch, execution: &ExecutionId, asset: &AssetId) -> Judged {
        let changed = self.row::<Changed>(&execution.to_string());
        let before = changed.and_then(|(changed, _)| changed.assets.first()?.before);
        let (Some(field), Some(before)) = (field_of(asset), before) else {
            return Err(("R38", format!("it is about no change of {asset}")));
        };
        self.judge.look("R38");
        let watched = &self.flows.watched;
        let (old, new) = (watched.at(field, before.0), watched.after(field, before.0));
        let handled = watched.handled.get(&(watch, field));
        let handled = watched.with_own(watch, field, handled.cloned().unwrap_or_default());
        let news: BTreeSet<Content> = new.difference(&old).copied().collect();
        let told = format!("a run of {asset} since {before}, where it was {old:?}");
        if old.is_disjoint(&handled) {
            let what = format!("{told}, but the last run was about one of {handled:?}");
            return Err(("R38", what));
        }
        // A run that was cancelled for a newer one may have done nothing.
        let replaces = watch == Watch::Replace;
        if news.is_empty() && !replaces {
            return Err(("R38", format!("{told}, and it has not changed")));
        }
        if watched.own.contains_key(&(watch, field)) {
            self.judge.look("R39");
        }
        let watched = &self.flows.watched;
        let own = watched.with_own(watch, field, old.clone());
        if !news.is_empty() && news.is_subset(&own) {
            let what = format!("{told}, and only runs of its watch have made {news:?}");
            return Err(("R39", what));
        }
        let mut about = new;
        if replaces {
            about.extend(old);
        }
        self.flows.watched.handled.insert((watch, field), about);
        Ok(())
    }

    /// R38: a condition has one run until it was over. `began`: when the run was started.
    fn judge_condition(&mut self, at: usize, began: Instant) -> Judged {
        self.judge.look("R38");
        let watched = &mut self.flows.watched;
        let before = watched.fired.insert(at, began);
        let stirred = watched.stirred.get(&at).copied();
        match before {
            Some(before) if stirred.is_none_or(|stirred| stirred + LATE < before) => {
                let what = format!("asset/{at:02} has been in sync since the run at {before:?}");
                Err(("R38", what))
            }
            _ => Ok(()),
        }
    }

    /// R38: no more runs beside each other than the watch allows.
    fn judge_beside(
        &mut self,
        watch: Watch,
        execution: &ExecutionId,
        stored: &Stored,
        asset: &AssetId,
    ) -> Judged {
        let mut live = self.flows.watched.live.remove(&watch).unwrap_or_default();
        match stored.live.is_some() {
            true => drop(live.insert(execution.clone(), asset.clone())),
            false => drop(live.remove(execution)),
        }
        let too_many = |live: &std::collections::BTreeMap<ExecutionId, AssetId>| {
            let same = live.values().filter(|it| *it == asset).count();
            let beside = watch != Watch::Allow && same > 1;
            beside || live.len() > watch.at_most() as usize
        };
        // The end of a run may be durable although its commit was not acknowledged.
        if too_many(&live) {
            live.retain(|it, _| self.stored(it).is_some_and(|it| it.live.is_some()));
        }
        let what = too_many(&live).then(|| format!("it runs beside others: {live:?}"));
        self.flows.watched.live.insert(watch, live);
        match what {
            Some(what) => Err(("R38", what)),
            None => Ok(()),
        }
    }

    /// R38: at rest, with all faults healed, each watch has handled all changes, and all conditions.
    pub(super) fn judge_watches_at_rest(&mut self) {
        if !self.has_watches() {
            return;
        }
        for watch in Watch::ON_INTENT {
            for field in 0..FIELDS.len() {
                if let Some(what) = self.unhandled(watch, field) {
                    self.violated("R38", what);
                }
            }
        }
        for at in 0..self.plan.wishes.len() {
            if let Some(what) = self.without_run(at) {
                self.violated("R38", what);
            }
        }
    }

    /// The change of a field that a watch has not handled, if there is one.
    fn unhandled(&self, watch: Watch, field: usize) -> Option<String> {
        let watched = &self.flows.watched;
        if self.now.since(watched.set[field]) < SLACK {
            return None;
        }
        let (no, _) = watched.sealed.last_key_value()?;
        let newest = watched.at(field, *no);
        let handled = watched.handled.get(&(watch, field));
        let Some(handled) = handled else {
            return Some(format!("{} is not taken", watch.id()));
        };
        let handled = watched.with_own(watch, field, handled.clone());
        let id = size_id(field);
        newest.is_disjoint(&handled).then(|| {
            format!(
                "{id} is {newest:?}, and the last run of {} was about one of {handled:?}",
                watch.id()
            )
        })
    }

    /// The asset that came in sync without a run, if there was none.
    fn without_run(&self, at: usize) -> Option<String> {
        let (wish, watched) = (&self.plan.wishes[at], &self.flows.watched);
        let taken = *watched.taken.get(&Watch::InSync)?;
        let pushed = *watched.pushed.get(&at)?;
        let from = self.judge.healed.max(self.judge.owned).max(taken) + LATE;
        // An asset that a rollout leaves alone is not in sync, although it was pushed: the condition may not have held for long.
        let stays = wish.exists && !wish.turndown && !self.judge.eyes[at].nowhere;
        let is_judged = wish.kind == Kind::Guarded && stays;
        let late = pushed > from && self.now.since(pushed) > SLACK;
        let fired = watched.fired.get(&at).copied();
        (is_judged && late && fired.is_none_or(|fired| fired < pushed)).then(|| {
            format!("asset/{at:02} was pushed at {pushed:?}, and its last run began at {fired:?}")
        })
    }
}

/// The run of a watch whose assets are in the row with this key.
fn run_of_changed(key: &str) -> Option<ExecutionId> {
    let name = key.strip_prefix(Changed::KIND)?;
    let name = name.strip_prefix(&format!("/{}/", partition()))?;
    let run: ExecutionId = name.parse().ok()?;
    Watch::of_run(&run).map(|_| run)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use plugin_sdk::Pin;
    use prodspec_model::{IncarnationId, IncarnationNo, Snapshot, incarnation::Header};

    use super::*;
    use crate::{scenario::Scenario, world::World};

    fn pass(world: &World, time: Duration) {
        let now = world.executor.now();
        world.executor.run_until(now + time);
        world.state().now = world.executor.now();
    }

    #[test]
    fn r38_condition_has_a_second_run_only_after_the_asset_or_its_pin_may_have_moved() {
        const ASSET: usize = 9;
        let world = World::new(0, Scenario::choose(0));
        let runs = |world: &World| {
            pass(world, 2 * LATE);
            let now = world.state().now;
            world.state().judge_condition(ASSET, now).is_ok()
        };
        assert!(runs(&world));
        assert!(!runs(&world), "nothing has happened to it");
        world.state().pin_moved(ASSET, Pin::Default);
        assert!(runs(&world), "no look at it counts from before the move");
        assert!(!runs(&world), "there was one run since the move");
    }

    /// The commit that starts a run is durable and not acknowledged, so the run is seen when it has gone on.
    #[test]
    fn r38_run_that_is_seen_late_is_of_the_condition_at_its_start() {
        const ASSET: usize = 9;
        let world = World::new(0, Scenario::choose(0));
        let began = world.state().now;
        pass(&world, 2 * LATE);
        world.state().stirs(ASSET);
        pass(&world, 2 * LATE);
        assert!(world.state().judge_condition(ASSET, began).is_ok());
        let now = world.state().now;
        assert!(world.state().judge_condition(ASSET, now).is_ok());
        pass(&world, 2 * LATE);
        let now = world.state().now;
        assert!(world.state().judge_condition(ASSET, now).is_err());
    }

    #[test]
    fn r38_contents_of_an_incarnation_are_those_that_are_read_back() {
        let world = World::new(0, Scenario::choose(0));
        let of =
            |size| (0..FIELDS.len()).map(move |field| (size_id(field), super::size(field, size)));
        let mut state = world.state();
        for size in [Some(1), Some(2), None] {
            state.seals(1, &of(size).collect::<Vec<_>>(), false);
        }
        assert_eq!(
            state.flows.watched.at(0, 1).len(),
            3,
            "none is acknowledged"
        );
        let assets = of(Some(2)).filter_map(|(_, asset)| asset);
        let no = IncarnationNo(1);
        let snapshot = Snapshot::empty().edit(no, assets.collect(), &[]);
        let id = IncarnationId::new(partition(), no);
        let header = Header::new(id, None, &snapshot, Timestamp::UNIX_EPOCH);
        state.is_sealed(&Incarnation::new(header, snapshot));
        assert_eq!(state.flows.watched.at(0, 1), [Some(2)].into());
    }
}
