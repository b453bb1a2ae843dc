//! Asks the server for the commit of a ref, and fetches it without its history.

use std::num::NonZeroU32;

use gix::{
    ObjectId, Repository, progress,
    remote::{
        Direction,
        fetch::{Shallow, Tags},
    },
};
use plugin_sdk::Problem;
use prodspec_gen::tree::Stop;

use crate::transport::{Access, Wire};

/// Why there is no commit to read.
pub(crate) enum Failure {
    /// The server or the way to it. The clone is good.
    Remote(Problem),
    /// Perhaps the clone. It is made again.
    Clone(Problem),
}

/// What to ask the server for.
pub(crate) struct Wanted<'w> {
    pub(crate) reference: &'w str,
    /// What the ref is called in messages.
    pub(crate) called: &'w str,
    /// The commit that the caller has.
    pub(crate) last: Option<&'w str>,
}

/// A commit that is in the clone.
pub(crate) struct Found {
    pub(crate) clone: Repository,
    pub(crate) id: ObjectId,
    /// The id of its root directory.
    pub(crate) tree: ObjectId,
}

/// Returns the present commit, which is in the clone then. `None`: the caller has it.
pub(crate) fn fetch(
    clone: Repository,
    access: &Access,
    wanted: &Wanted<'_>,
    stop: &Stop,
) -> Result<Option<Found>, Failure> {
    let Wanted {
        reference,
        called,
        last,
    } = *wanted;
    let remote = |problem| Failure::Remote(problem);
    let url = access.parsed().map_err(remote)?;
    let spec = format!("+{reference}:refs/source/head");
    let from = clone
        .remote_at_without_url_rewrite(url)
        .and_then(|it| it.with_refspecs([&*spec], Direction::Fetch))
        .map_err(|error| remote(access.says(&error, "")))?
        .with_fetch_tags(Tags::None);
    let (transport, wire) = access.connect(stop).map_err(remote)?;
    let failed = |error: &gix::Error, wire: &Wire| match stop.is_stopped() {
        true => Problem::new(
            "reading it was given up before the server had answered; check the server, or allow more time",
        ),
        false => access.says(error, &wire.complaint()),
    };
    let connection = from.to_connection_with_transport(transport);
    let connection = connection.with_credentials(access.credentials());
    let prepared = connection.prepare_fetch(progress::Discard, Default::default());
    let prepared = prepared.map_err(|error| remote(failed(&error, &wire)))?;
    let mappings = &prepared.ref_map().mappings;
    let Some(head) = mappings
        .iter()
        .find_map(|mapping| mapping.remote.peeled_id())
    else {
        let message = format!("has no {called}; push it, or name one that is there");
        return Err(remote(access.problem(&message)));
    };
    let head = head.to_owned();
    let id = head.to_string();
    if last == Some(&*id) {
        return Ok(None);
    }
    if !clone.has_object(head) {
        let prepared = prepared.with_shallow(Shallow::DepthAtRemote(NonZeroU32::MIN));
        let received = prepared.receive(progress::Discard, stop.flag());
        received.map_err(|error| Failure::Clone(failed(&error, &wire)))?;
    }
    let (id, tree) = commit(&clone, head, called, access)?;
    drop(from);
    Ok(Some(Found { clone, id, tree }))
}

/// The commit that `head` names, perhaps through tags, and its tree.
fn commit(
    clone: &Repository,
    head: ObjectId,
    called: &str,
    access: &Access,
) -> Result<(ObjectId, ObjectId), Failure> {
    let broken = |error: &gix::Error| Failure::Clone(access.says(error, ""));
    let object = clone.find_object(head).map_err(|error| broken(&error))?;
    let object = object.peel_tags_to_end().map_err(|error| broken(&error))?;
    if object.kind != gix::object::Kind::Commit {
        let message = format!(
            "its {called} names a {}, not a commit; name another ref",
            object.kind
        );
        return Err(Failure::Remote(access.problem(&message)));
    }
    let commit = object.into_commit();
    let tree = commit.tree_id().map_err(|error| broken(&error))?;
    Ok((commit.id, tree.detach()))
}
