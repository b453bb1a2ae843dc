//! The index of all texts: it is printed again and again, so that it is never older than its asset says.

use std::time::Duration;

use control_plane::{
    ControlPlaneBuilder,
    workflow::{Error, FreshPlugin, Machine, Workflow, is},
};

use crate::model::FreshIndex;

/// Registers the workflow `reindex`, and the plugin that runs it when the index is half as old as it may become. The other
/// half is the time for the run, and for a control plane that has to be started again.
pub(super) fn add(builder: ControlPlaneBuilder) -> Result<ControlPlaneBuilder, Error> {
    let reindex = Workflow::new("reindex")
        .machine(Machine::calls("index", "print"))
        .ends_well(is("index", "done"))
        .build()?;
    let builder = builder.workflow(reindex);
    Ok(builder.bridge::<FreshIndex, _>(|executions| {
        let due = |index: &FreshIndex| Duration::from_secs(index.max_age_secs / 2);
        FreshPlugin::of("reindex", executions).within(due)
    }))
}
