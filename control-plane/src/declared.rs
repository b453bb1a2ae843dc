//! R101: changes that are declared as assets. Each begins by itself, once for each content.

use std::collections::BTreeMap;

use annealing_strategist::{AskError, Command, State, change};
use control_plane_runtime::Runtime;
use plugin_sdk::{AssetView, By, FieldPath, Problems, with_causes};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, rollout::RollOut};

use crate::{
    arrivals::is_final,
    attempt::{Attempt, Wait, attempt, later, rests},
    handle::{Error, Handle},
    in_intent::InIntent,
    roll_out::newest,
};

/// The changes in intent, as this owner of the partition follows them.
#[derive(Default)]
pub(crate) struct Declared {
    intent: InIntent<RollOut>,
    /// Those that have begun, as they were then. `None`: not read yet.
    begun: Option<BTreeMap<AssetId, RollOut>>,
    /// Those that do not begin as sources were, with the incarnation of then and the reason.
    refused: BTreeMap<AssetId, (IncarnationNo, String)>,
}

/// The next event of a change that has not begun, and the reason why it has not.
struct Waits(Option<Wait>, String);

impl Declared {
    /// Looks at all changes: begins those that are new, and stops those that are gone. Returns the events that are worth
    /// another look.
    pub(crate) async fn look<R: Runtime>(
        &mut self,
        handle: &Handle<R>,
        latest: &Incarnation,
    ) -> Result<Vec<Wait>, Error> {
        self.intent.take(latest);
        let mut begun = match self.begun.take() {
            Some(begun) => begun,
            None => live(handle).await?,
        };
        let gone = |key: &AssetId| !self.intent.all.contains_key(key);
        for (key, _) in begun.extract_if(.., |key, _| gone(key)) {
            stop(handle, &key).await?;
        }
        let (mut waits, mut undone) = (Vec::new(), BTreeMap::new());
        let mut refused = std::mem::take(&mut self.refused);
        for (key, change) in &self.intent.all {
            if begun.get(key) == Some(change) {
                continue;
            }
            let same = refused.remove(key).filter(|(at, _)| *at == latest.no());
            let waiting = match same {
                Some((_, why)) => Some(Waits(None, why)),
                None => match begin(handle, key, change).await {
                    Err(error @ (Error::NotOwner { .. } | Error::Rollout(_))) => return Err(error),
                    // Such as a store that fails: the others go on.
                    Err(error) => Some(Waits(Some(later(handle)), with_causes(&error))),
                    begun => begun?,
                },
            };
            let Some(Waits(wait, why)) = waiting else {
                begun.insert(key.clone(), change.clone());
                continue;
            };
            match wait {
                Some(wait) => waits.push(wait),
                None => drop(self.refused.insert(key.clone(), (latest.no(), why.clone()))),
            }
            undone.insert(key.clone(), why);
        }
        self.begun = Some(begun);
        handle.shared.undone.send_replace(undone);
        Ok(waits)
    }
}

/// The live changes that were declared.
async fn live<R: Runtime>(handle: &Handle<R>) -> Result<BTreeMap<AssetId, RollOut>, Error> {
    let mut live = BTreeMap::new();
    for view in handle.rollouts().await? {
        let name = change::name_of(&view.policy).filter(|_| view.live);
        let Some(name) = name else { continue };
        let known = newest(handle, name).await?;
        if let Some(known) = known.filter(|known| *known.by.who == *view.policy.as_str()) {
            live.insert(view.policy, known.change);
        }
    }
    Ok(live)
}

/// Stops a change whose asset has left intent. Its targets stay where they are.
async fn stop<R: Runtime>(handle: &Handle<R>, key: &AssetId) -> Result<(), Error> {
    let by = By::new(key.as_str(), "it has left intent, or is turned down");
    match handle.tell_rollout(key, Command::Abort, by).await {
        // It has ended, or goes back.
        Err(Error::Rollout(AskError::Refused(_))) => Ok(()),
        stopped => stopped,
    }
}

/// Begins a change, after one of other content that has the name. `None`: it has begun.
async fn begin<R: Runtime>(
    handle: &Handle<R>,
    key: &AssetId,
    change: &RollOut,
) -> Result<Option<Waits>, Error> {
    let known = newest(handle, &change.name).await?;
    if let Some(known) = &known {
        let (rollout, number) = (&known.rollout, known.number);
        if known.change == *change {
            return Ok(None);
        }
        if !rollout.state.has_ended() {
            let wait = match rollout.state {
                State::Stopped { .. } => later(handle),
                _ => rests(handle, key.clone()).await?,
            };
            let why = format!(
                "waits for the end of number {number} of this change, which has other content and is {}",
                rollout.state
            );
            return Ok(Some(Waits(Some(wait), why)));
        }
    }
    let by = By::new(key.as_str(), "it is in intent");
    Ok(match attempt(handle, change, by, known.as_ref()).await? {
        Attempt::Begun => None,
        Attempt::Later(why) => Some(Waits(Some(later(handle)), why)),
        Attempt::Refused(error) => {
            let again = !is_final(handle, &error).await;
            Some(Waits(again.then(|| later(handle)), error.to_string()))
        }
    })
}

/// Checks that the id of a change is that of its name, and that it sets fields.
pub(crate) fn valid(change: &RollOut, view: &AssetView<'_>, problems: &mut Problems) {
    let mut says = |field: &str, why: String| {
        problems.push(view.problem(why).field(format!("payload.{field}")));
    };
    match change::requested_key(&change.name) {
        Err(error) => says("name", error.to_string()),
        Ok(key) if key != view.asset().id() => {
            let why = "must be the end of the id of the asset, which is `rollout/<name>`";
            says("name", why.to_owned());
        }
        Ok(_) => {}
    }
    if change.set.is_empty() {
        says("set", "must set at least one field".to_owned());
    }
    for path in change.set.keys() {
        if path.is_empty() || path.parse::<FieldPath>().is_err() {
            let why = "is no field of the targets' entries, such as `flags.dark_mode`";
            says("set", format!("`{path}` {why}"));
        }
    }
}
