//! Removes executions that ended long ago, and then their keys: at most once an hour, and after a takeover. What is removed
//! is found beside the loop; the loop removes it in a commit of the lane.

use std::{sync::Arc, time::Duration};

use control_plane_runtime::Runtime;
use control_plane_store::{
    Error, KeyRange, Record, Write,
    record::{self, Stored},
};
use futures::channel::mpsc::UnboundedSender;
use jiff::Timestamp;
use prodspec_model::Digest;

use super::{
    Input,
    build::Workflows,
    history::{KEY, Kept},
    writes::DEFINITION,
};
use crate::record::{
    self as records, Ended, FeedPosition, KeyRecord, LogRecord, OldKey, Output, StepRecord,
};

/// Time between two passes.
pub(super) const EVERY: Duration = Duration::from_secs(3600);

/// Number of rows that are read at once.
const PAGE: usize = 1000;

/// Number of definitions that are read at once. They are larger.
const DEFINITIONS: usize = 50;

/// What a pass has found.
pub(crate) enum Found {
    /// All executions that have ended, and all definitions that are stored. `None`: some of the executions cannot be read, so
    /// it is not known which definitions they keep to.
    History(Vec<Kept>, Option<Vec<Digest>>),
    /// An execution to remove, as it was when the pass began, with the writes that do so.
    Old(Box<Kept>, Vec<Write>),
    /// Keys, and parts of the feed, that are not kept any more.
    Keys(Vec<Write>),
}

/// Reads which executions have ended and which definitions are stored, once after a takeover.
pub(super) fn look<R: Runtime>(workflows: &Arc<Workflows<R>>, sender: &UnboundedSender<Input>) {
    let (ours, sender) = (workflows.clone(), sender.clone());
    spawn(workflows, async move {
        let ended = record::load_each::<Ended>(&*ours.store, &ours.partition).await?;
        // R41: the ends among them that a listener has not heard are in the feed up to here.
        let unheard = ours.unheard().await?;
        // What this program cannot read stays, and holds up nothing else.
        let readable = |(name, ended): &(String, Result<Stored<Ended>, Error>)| match ended {
            Ok(ended) => Some(Kept::of(&ended.value, unheard.clone())),
            Err(error) => {
                tracing::warn!(partition = %ours.partition, execution = name, %error, "an execution that has ended cannot be read; it is kept until a program can");
                None
            }
        };
        let kept: Vec<Kept> = ended.iter().filter_map(readable).collect();
        let definitions = match kept.len() == ended.len() {
            true => Some(definitions(&ours).await?),
            false => None,
        };
        tell(&sender, Found::History(kept, definitions));
        Ok(())
    });
}

/// The digests of all stored definitions.
async fn definitions<R: Runtime>(workflows: &Workflows<R>) -> Result<Vec<Digest>, Error> {
    let mut rest = Some(record::range(&workflows.partition, DEFINITION));
    let mut digests = Vec::new();
    while let Some(range) = rest {
        let page = workflows.store.scan(range, DEFINITIONS).await?;
        let names = page
            .rows
            .iter()
            .filter_map(|(key, _)| key.as_str().rsplit('/').next());
        digests.extend(names.filter_map(|name| name.parse::<Digest>().ok()));
        rest = page.rest;
    }
    Ok(digests)
}

/// Finds everything that is stored of these executions, the keys whose time is over, and the old parts of the feed that all
/// listeners have heard, up to the place `heard`.
pub(super) fn pass<R: Runtime>(
    workflows: &Arc<Workflows<R>>,
    sender: &UnboundedSender<Input>,
    over: Vec<Kept>,
    heard: Option<FeedPosition>,
    now: Timestamp,
) {
    let (ours, sender) = (workflows.clone(), sender.clone());
    spawn(workflows, async move {
        for kept in over {
            let writes = of_execution(&ours, &kept, now).await?;
            tell(&sender, Found::Old(Box::new(kept), writes));
        }
        let mut rest = None;
        loop {
            let (writes, more) = old_keys(&ours, rest, now).await?;
            if !writes.is_empty() {
                tell(&sender, Found::Keys(writes));
            }
            rest = more;
            if rest.is_none() {
                break;
            }
        }
        let mut after = None;
        loop {
            let (writes, last) = ours.old_feed(after.as_ref(), heard.as_ref(), now).await?;
            if last.is_none() {
                return Ok(());
            }
            tell(&sender, Found::Keys(writes));
            after = last;
        }
    });
}

fn tell(sender: &UnboundedSender<Input>, found: Found) {
    // The ownership may have ended meanwhile.
    let _ = sender.unbounded_send(Input::Found(found));
}

fn spawn<R: Runtime>(
    workflows: &Arc<Workflows<R>>,
    find: impl Future<Output = Result<(), Error>> + Send + 'static,
) {
    let partition = workflows.partition.clone();
    workflows.runtime.spawn(Box::pin(async move {
        if let Err(error) = find.await {
            tracing::warn!(%partition, %error, "failed to look for old executions; looking again in an hour");
        }
    }));
}

/// The writes that remove an execution. Its key stays for another 30 days.
pub(super) async fn of_execution<R: Runtime>(
    workflows: &Workflows<R>,
    kept: &Kept,
    now: Timestamp,
) -> Result<Vec<Write>, Error> {
    let partition = &workflows.partition;
    let mut writes = Vec::new();
    for kind in [LogRecord::KIND, StepRecord::KIND, Output::KIND] {
        let prefix = record::key(partition, kind, &format!("{} ", kept.id));
        let mut rest = Some(KeyRange::prefix(prefix.as_str()));
        while let Some(range) = rest {
            let page = workflows.store.scan(range, PAGE).await?;
            writes.extend(page.rows.into_iter().map(|(key, _)| Write::Delete(key)));
            rest = page.rest;
        }
    }
    let name = kept.id.to_string();
    writes.push(record::delete::<records::Input>(partition, &name));
    writes.push(record::delete::<records::Changed>(partition, &name));
    if let Some(key) = &kept.key {
        let name = KeyRecord::name(&kept.id.workflow, key);
        let known = record::load::<KeyRecord>(&*workflows.store, partition, &name).await?;
        // R41: the keys of assets stay.
        let goes = |it: &KeyRecord| it.execution == kept.id && it.runs.is_empty();
        if let Some(mut known) = known.filter(|it| goes(&it.value)) {
            let until = now.checked_add(KEY).unwrap_or(Timestamp::MAX);
            known.value.until = Some(until);
            writes.push(known.rewrite(partition, &name)?);
            let execution = kept.id.clone();
            let old = OldKey::name(until, &name);
            writes.push(record::put(partition, &old, &OldKey { execution })?);
        }
    }
    // Last, so that the next pass finds it again if only a part is removed.
    writes.push(record::delete::<Ended>(partition, &name));
    Ok(writes)
}

/// The writes that remove the keys whose time is over, page by page, and where the next page begins. The oldest are read
/// first, so those that stay cost nothing.
pub(super) async fn old_keys<R: Runtime>(
    workflows: &Workflows<R>,
    rest: Option<KeyRange>,
    now: Timestamp,
) -> Result<(Vec<Write>, Option<KeyRange>), Error> {
    let (store, partition) = (&*workflows.store, &workflows.partition);
    let first = record::key(partition, OldKey::KIND, "");
    let start = format!("{}/", first.as_str());
    let end = record::key(partition, OldKey::KIND, &OldKey::name(now, ""));
    let range = rest.unwrap_or_else(|| KeyRange::between(start.as_str(), end));
    let page = store.scan(range, PAGE).await?;
    let mut writes = Vec::new();
    for (row, stored) in page.rows {
        let old = record::decode::<OldKey>(&row, &stored)?;
        let name = row.as_str().rsplit(' ').next().unwrap_or_default();
        let known = record::load::<KeyRecord>(store, partition, name).await?;
        // Its execution may have been restarted since, and be kept again.
        let goes = |it: &KeyRecord| {
            it.execution == old.value.execution && it.until.is_some_and(|until| until <= now)
        };
        if known.is_some_and(|known| goes(&known.value)) {
            writes.push(record::delete::<KeyRecord>(partition, name));
        }
        writes.push(Write::Delete(row));
    }
    Ok((writes, page.rest))
}
