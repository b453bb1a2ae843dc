//! Commands of operators while the partition has no incarnation: pauses hold from its first asset on, and a command about an
//! asset is refused.

use std::collections::BTreeSet;

use control_plane_store::records::{Ended, Pause, Scope};
use plugin_sdk::Now;
use prodspec_model::TypeName;

use super::{
    command::{is_to_come, no_plugin, not_paused},
    state::people::{Command, Interventions, People},
};

/// Executes a command before the first incarnation. `types` have a plugin, `words` are the recorded commands. Returns the
/// pause to record, or why the command is refused.
pub(crate) fn before_intent(
    now: Now,
    types: &BTreeSet<TypeName>,
    words: Interventions,
    command: Command,
) -> Result<Pause, String> {
    let asset = match command {
        Command::Pause {
            scope: Scope::Asset(asset),
            ..
        } => asset,
        Command::Pause { scope, until, by } => {
            if let Scope::Type(name) = &scope
                && !types.contains(name)
            {
                return Err(no_plugin(name, types));
            }
            is_to_come(now, until)?;
            return Ok(Pause {
                scope,
                by,
                at: now.wall,
                until,
                resumed: None,
            });
        }
        Command::Resume { scope, by } => {
            let mut people = People::default();
            people.remember(words, now.wall);
            let ended = Ended { by, at: now.wall };
            let resumed = people.resume(&scope, ended);
            return resumed.ok_or_else(|| not_paused(&scope, people.paused()));
        }
        Command::ApproveSet { set, .. } => {
            return Err(format!(
                "no change with the digest {set} waits: the partition has no incarnation yet"
            ));
        }
        Command::Approve { asset, .. }
        | Command::Override { asset, .. }
        | Command::LookNow { asset, .. }
        | Command::Acknowledge { asset, .. }
        | Command::PushIsOver { asset, .. } => asset,
    };
    Err(format!(
        "`{asset}` is not known: the partition has no incarnation yet; its assets are diffed as soon as one is sealed, and \
         pauses of a type or of the partition may be set before that"
    ))
}
