//! A train: three versions, one behind the other, through two stages of clusters.

use control_plane::model::{
    AssetId, Filter,
    train::{Stage, Train},
};
use control_plane::prelude::AssetRef;
use testbed::judge::{
    Held, Intent,
    broken::{broken, ensure, until},
    evidence::{self, Mark},
};

use super::{Session, by_pins, moments, now, says, tasks};
use crate::model::Rollout;

/// The bake of a stage, in seconds.
const BAKE: u64 = 2;
/// The policy of both stages.
const RIDE: &str = "ride";

/// Offers three versions, each one when the one before is in the first stage, and kills the control plane in between.
pub(in crate::demo) async fn train(session: &mut Session) -> Held<String> {
    let Some(first) = session.manifest.rollout.domains.first().cloned() else {
        return broken("the policy lists no cluster");
    };
    let train = two_stages(&first)?;
    session.edit(|manifest| {
        let ride = Rollout {
            bake: BAKE,
            ..Rollout::default()
        };
        manifest.policies.insert(RIDE.into(), ride);
        manifest.train = Some(train);
    })?;
    session.town.accepts().await?;
    let (mark, kills) = (evidence::mark(&session.town.place)?, moments(session));
    let versions = [(); 3].map(|()| session.fresh_version());
    for version in &versions {
        until("the train takes the version", async || {
            let offer = ["train", "offer", version, "--why", "a test"];
            session.town.command(&offer).await
        })
        .await?;
        until("it is in the first stage", async || {
            let there = now(session)?
                .clusters
                .get(&first)
                .and_then(|it| it.version.clone());
            ensure(there.as_ref() == Some(version), || {
                format!("it is {there:?}")
            })
        })
        .await?;
        if version == &versions[1] {
            session.crash(&kills).await?;
        }
    }
    for cluster in session.manifest.clusters.values_mut() {
        cluster.version = Some(versions[2].clone());
    }
    session.arrives().await?;
    session.town.rests().await?;
    says(session, &session.manifest.text())?;
    let through = in_order(session, &mark, &first, &versions)?;
    by_pins(session, &versions[2]).await?;
    session.only_this_version_answers().await?;
    Ok(format!(
        "{through}; killed {kills:?} ms in (journals, manifest)"
    ))
}

/// The first cluster, then all others.
fn two_stages(first: &str) -> Held<Train> {
    let id = |id: &str| AssetId::new(id).or_else(broken);
    let policy = AssetRef::to(id(&format!("policy/{RIDE}"))?);
    let stage = |name: &str, under: String| Stage {
        name: name.to_owned(),
        targets: Filter::default().under(under),
        first: None,
        policy: policy.clone(),
        weekdays_in: None,
    };
    let mut train = Train::new("version");
    train.stages = vec![
        stage("first", format!("job/{first}")),
        stage("all", "job/".into()),
    ];
    Ok(train)
}

/// Expects that the first cluster had all versions, and each other one some of them up to the last one, in their order, and
/// none before it has baked in the first cluster.
fn in_order(session: &Session, mark: &Mark, first: &str, versions: &[String; 3]) -> Held<String> {
    let of = |cluster: &str| -> Held<Vec<(u64, String)>> {
        let tasks = tasks(session, mark, cluster)?.into_iter();
        Ok(tasks.map(|(at, (version, _))| (at, version)).collect())
    };
    let names = |had: &[(u64, String)]| -> Vec<String> {
        had.iter().map(|(_, version)| version.clone()).collect()
    };
    let ripe = of(first)?;
    ensure(names(&ripe) == *versions, || {
        format!("{first} had {ripe:?}")
    })?;
    let mut through = Vec::new();
    for cluster in session.clusters().iter().filter(|it| *it != first) {
        let had = of(cluster)?;
        let mut left = versions.iter();
        let sorted = had.iter().all(|(_, version)| left.any(|it| it == version));
        let arrived = had.last().map(|(_, version)| version) == versions.last();
        let baked = had.iter().all(|(at, version)| {
            let before = ripe.iter().find(|(_, it)| it == version);
            before.is_some_and(|(before, _)| before + BAKE * 1_000_000 <= *at)
        });
        ensure(sorted && arrived && baked, || {
            format!("{cluster} had {had:?}, {first} {ripe:?}")
        })?;
        through.push(format!("{cluster} {}", names(&had).join(" ")));
    }
    Ok(format!(
        "{first} {}, then {}",
        versions.join(" "),
        through.join(", ")
    ))
}
