//! R101: edit templates say where the sources have the fields of a change.

use control_plane::{
    Error, RollOutRefused, model::rollout::RollOut, prelude::*, runtime::TokioRuntime,
    strategist::State,
};

use crate::{
    by_edits::{MANIFEST, WEEK, World, change},
    world::{LONG, Running, Service, ann, id},
};

/// Calls the flag `dark`, and refuses everything else.
fn dark(target: &AssetView<'_>, change: &RollOut) -> Result<Vec<FieldEdit>, Problem> {
    let dark = change.set.get("dark");
    let dark = dark.ok_or_else(|| Problem::new("only `dark` can be rolled out"))?;
    let id = target.asset().id();
    let path = format!("services.{id}.flag")
        .parse()
        .map_err(Problem::new)?;
    Ok(vec![FieldEdit::add("manifest.yaml#0", path, dark.clone())])
}

#[tokio::test(start_paused = true)]
async fn r101_edit_template_says_where_the_field_of_a_change_is() {
    let world = World::new();
    let source = YamlFile::new(world.path());
    let plane = world.builder(TokioRuntime::current(), "manifest.yaml", source);
    let plane = plane.edit_template::<Service>("manifest.yaml", dark);
    let running = Running::start(plane.build().unwrap());
    running.handle.wait_until_owner().await;
    running.handle.settle(LONG).await.unwrap();

    let size = change("larger", "slowly").set("size", 2);
    let refused = running.handle.roll_out(&size, ann()).await.unwrap_err();
    assert!(
        matches!(&refused, Error::RollOut(RollOutRefused::Template(asset, _)) if *asset == id("a")),
        "{refused}"
    );
    let why = refused.to_string();
    assert!(why.contains("only `dark` can be rolled out"), "{why}");

    let dark = change("dark-mode", "slowly").set("dark", true);
    let dark = running.handle.roll_out(&dark, ann()).await.unwrap();
    let over = running.handle.wait_roll_out(&dark.key, WEEK).await.unwrap();
    assert_eq!(over.state, State::Completed);
    assert_eq!(world.of_size(11), 4);
    assert_eq!(world.text(), MANIFEST.replace("flag: false", "flag: true"));
    running.stop().await;
}
