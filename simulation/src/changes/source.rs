//! The page as an editable source. Its commits are slow, fail, and lose their answers.

use std::time::Duration;

use async_trait::async_trait;
use control_plane::sdk::{
    EditError, EditableSource, Problem, Problems, Proposal, Reading, SourceChange, SourceOfTruth,
};
use futures::{
    StreamExt,
    channel::{mpsc, oneshot},
    stream::BoxStream,
};
use prodspec_model::{Revision, SourceName};

use super::{
    manifest::NAME,
    page::{edited, reading, revision},
    world::World,
};

/// The page, as a process reads and edits it.
pub(super) struct Source(pub(super) World);

fn failed(why: &str) -> Problems {
    Problem::new(why).into()
}

#[async_trait]
impl SourceOfTruth for Source {
    fn name(&self) -> SourceName {
        SourceName(NAME.into())
    }

    async fn read(&self) -> Result<Reading, Problems> {
        let (most, slow) = (Duration::from_millis(200), self.0.state().strikes(5));
        let most = if slow { Duration::from_secs(20) } else { most };
        self.0.takes(Duration::ZERO, most).await;
        let mut state = self.0.state();
        if state.strikes(3) {
            return Err(failed("the page cannot be read"));
        }
        reading(&state.page.text)
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let (sender, hints) = mpsc::unbounded();
        self.0.state().page.listen(sender);
        hints.boxed()
    }
}

#[async_trait]
impl EditableSource for Source {
    async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError> {
        let most = Duration::from_millis(500);
        self.0.takes(Duration::ZERO, most).await;
        let mut state = self.0.state();
        if state.strikes(3) {
            return Err(EditError::Failed(failed("the page cannot be read")));
        }
        let text = state.page.text.clone();
        drop(state);
        let after = edited(&text, &change.edits);
        let after = after.map_err(|problem| EditError::Refused(problem.into()))?;
        let before = Revision(revision(&text));
        let reading = reading(&after).map_err(EditError::Refused)?;
        Ok(Proposal::new(before, reading, ""))
    }

    async fn commit(
        &self,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError> {
        let (lost, travel) = {
            let mut state = self.0.state();
            if state.strikes(3) {
                return Err(EditError::Failed(failed("the page does not answer")));
            }
            let most = Duration::from_secs(3);
            let travel = state.random.between(Duration::ZERO, most);
            (state.strikes(5), travel)
        };
        let (reply, answer) = oneshot::channel();
        let (world, change, proposal) = (self.0.clone(), change.clone(), proposal.clone());
        // A commit that is under way is made although its process dies.
        self.0.spawn(async move {
            world.sleep(travel).await;
            let made = commit(&world, &change, &proposal);
            world.verdict();
            // The process may be gone.
            let _ = reply.send(made);
        });
        match answer.await {
            Ok(made) if !lost => made,
            _ => Err(EditError::Unknown(failed("the connection was lost"))),
        }
    }
}

/// Makes a change at this moment, if the text is that of the proposal.
fn commit(
    world: &World,
    change: &SourceChange,
    proposal: &Proposal,
) -> Result<Revision, EditError> {
    let now = world.now();
    let mut state = world.state();
    let state = &mut *state;
    let there = Revision(revision(&state.page.text));
    let after = proposal.reading.revision.clone();
    if there == after {
        return Ok(after);
    }
    if there != proposal.before {
        return Err(EditError::Moved { now: there });
    }
    let text = edited(&state.page.text, &change.edits);
    let text = text.map_err(|problem| EditError::Refused(problem.into()))?;
    state.edited_by_program(now, change);
    state.page.set(text);
    Ok(after)
}
