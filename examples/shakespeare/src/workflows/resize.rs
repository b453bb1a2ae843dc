//! The functions of an operation that resizes a cluster: the tasks of its job and the limit of its balancer, in one edit of
//! the manifest.
//!
//! ```sh
//! shakespeare workflow start premiere --key 2027 --operation '{"pipeline": [
//!     {"name": "resize", "function": "resize", "input": {"cluster": "eu", "percent": 150}},
//!     {"name": "fit", "function": "fit"}], "may": [{"edit": {"source": "manifest.yaml", "under": "clusters.*"}}]}'
//! ```

use control_plane::{
    ControlPlaneBuilder,
    prelude::{AssetId, FieldEdit, FieldPath, Message, plugin},
    workflow::{Answer, FunctionInfo, FunctionRequest, Power, Ran, Repeat, from_fn},
};

use crate::model::{FrontendJob, LoadBalancer, SOURCE};

/// Registers `resize` and `fit`.
pub(super) fn add(builder: ControlPlaneBuilder) -> ControlPlaneBuilder {
    let safe = |name: &str| FunctionInfo::new(name).repeat(Repeat::Safe);
    let resizes = safe("resize")
        .may(Power::edit(SOURCE, "clusters.*.replicas"))
        .may(Power::edit(SOURCE, "clusters.*.balancer_capacity"));
    builder
        .function(from_fn(resizes, resize))
        .function(from_fn(safe("fit"), fit))
}

/// Sets the size of a cluster to a percentage of the present one.
async fn resize(request: FunctionRequest) -> Result<Ran, plugin::Error> {
    let cluster: String = request.input("cluster")?;
    let percent: u32 = request.input("percent")?;
    let job: FrontendJob = payload(&request, &format!("job/{cluster}"))?;
    let balancer: LoadBalancer = payload(&request, &format!("balancer/{cluster}"))?;
    let set = |field: &str, was: u32| {
        let path = FieldPath::keys(["clusters", &cluster, field]);
        let to = was.saturating_mul(percent) / 100;
        FieldEdit::set(&format!("{SOURCE}#0"), path, was, to)
    };
    let answer = Answer::new()
        .edit(SOURCE, set("replicas", job.replicas))
        .edit(SOURCE, set("balancer_capacity", balancer.max_capacity))
        .note(format!("{cluster} to {percent} percent"));
    Ok(answer
        .context("capacity_per_task", &job.capacity_per_task)?
        .done())
}

/// Refuses a size with which the balancer would send more requests than the tasks can serve. It sees the edits of the
/// step before it.
async fn fit(request: FunctionRequest) -> Result<Ran, plugin::Error> {
    let per_task: u64 = request.context_entry("capacity_per_task")?;
    let to = |field: &str| {
        let edits = request.edits.iter().map(|edit| &edit.edit);
        let mut of = edits.filter(|edit| edit.path.to_string().ends_with(field));
        of.find_map(|edit| edit.to.as_ref()?.as_u64())
    };
    let (Some(replicas), Some(limit)) = (to("replicas"), to("balancer_capacity")) else {
        return Err(plugin::Error::permanent(
            "no step before has set both sizes",
        ));
    };
    if replicas == 0 || limit > replicas * per_task {
        let why = format!("{replicas} tasks cannot serve {limit} requests at the same time");
        return Err(plugin::Error::permanent(why));
    }
    Ok(Answer::new().note("the tasks can serve it").done())
}

fn payload<T: Message>(request: &FunctionRequest, asset: &str) -> Result<T, plugin::Error> {
    let refused = |error: &dyn std::error::Error| plugin::Error::permanent(error.to_string());
    let id = AssetId::new(asset).map_err(|error| refused(&error))?;
    let asset = request.reader.asset(&id)?;
    asset.payload().map_err(|error| refused(&error))
}
