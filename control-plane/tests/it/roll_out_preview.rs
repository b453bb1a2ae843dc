//! A change is previewed before it begins, and while it is live: the targets, their order and their times are those of the run.

use std::time::Duration;

use control_plane::{Error, model::AssetId, strategist::preview::Schedule};
use tokio::time::Instant;

use crate::{
    by_edits::{MANIFEST, WEEK, World, change},
    rollouts::until,
    world::{Running, ann, id},
};

/// About the time from an edit until production has it.
const MOMENT: Duration = Duration::from_millis(200);

/// The targets in the order in which they move, with the seconds after `from`.
fn order(schedule: &Schedule) -> Vec<(AssetId, i64)> {
    let first = schedule.steps[0].at;
    let steps = schedule.steps.iter();
    let moves = steps.flat_map(|step| step.selected.iter().map(|id| (id.clone(), step.at)));
    moves
        .map(|(id, at)| (id, at.duration_since(first).as_secs()))
        .collect()
}

/// Waits until one more service has the flag. Returns it with the time.
async fn next(world: &World, running: &Running, before: usize) -> (AssetId, Instant) {
    let had = world.names_of_size(11);
    assert_eq!(had.len(), before);
    until(running, "one more is updated", || {
        world.of_size(11) > before
    })
    .await;
    let mut now = world.names_of_size(11);
    now.retain(|name| !had.contains(name));
    (id(now[0]), Instant::now())
}

#[tokio::test(start_paused = true)]
async fn preview_of_a_change_is_its_run() {
    let three = "waves: [{upto: {count: 2}, bake_secs: 300}, {upto: {count: 3}, bake_secs: 100}]";
    let careful = MANIFEST.replace("max_in_flight: 1, bake_secs: 30", three);
    let world = World::with(&careful);
    let running = world.start().await;
    let change = change("dark-mode", "careful").set("flag", true);
    let first = running
        .handle
        .preview_roll_out(&change, MOMENT)
        .await
        .unwrap();
    assert!(
        running.handle.held_fields().await.unwrap().is_empty(),
        "nothing has begun"
    );

    assert_eq!(world.text(), careful);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    let (mut run, mut start) = (Vec::new(), None);
    for before in 0..4 {
        if before == 2 {
            let rest = running
                .handle
                .preview_rollout(&rolling.key, MOMENT)
                .await
                .unwrap();
            let left: Vec<AssetId> = order(&rest).into_iter().map(|(id, _)| id).collect();
            let expected = order(&first).into_iter().skip(2).map(|(id, _)| id);
            assert_eq!(left, expected.collect::<Vec<_>>());
        }
        let (target, at) = next(&world, &running, before).await;
        let start = *start.get_or_insert(at);
        run.push((target, (at - start).as_secs() as i64));
    }
    for (target, after) in order(&first) {
        let (_, real) = run.iter().find(|(it, _)| *it == target).unwrap();
        assert!(
            (real - after).abs() <= 1,
            "{run:?}, not {:?}",
            order(&first)
        );
    }
    running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    let over = running.handle.preview_rollout(&rolling.key, MOMENT).await;
    assert!(matches!(over, Err(Error::Rollout(_))), "{over:?}");
    running.stop().await;
}
