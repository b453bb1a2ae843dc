//! What does not fit together is refused when it is built.

use std::{
    io,
    sync::{Arc, Mutex},
};

use control_plane::prelude::*;
use tracing_subscriber::fmt::MakeWriter;

use crate::world::{Group, Model, Production, Service, Text, plane};

fn parts() -> control_plane::ControlPlaneBuilder {
    plane(&Production::default()).source(Text::new("services: {}"))
}

#[test]
fn a_control_plane_is_built_in_a_runtime() {
    let refused = parts().store(MemoryStore::new()).build().unwrap_err();
    assert!(matches!(refused, BuildError::NoRuntime), "{refused}");
}

#[tokio::test]
async fn what_is_missing_is_named() {
    assert!(matches!(parts().build(), Err(BuildError::NoStore)));
    let nameless = ControlPlane::builder("No Name").store(MemoryStore::new());
    assert!(matches!(nameless.build(), Err(BuildError::Partition(_))));
    let sourceless = plane(&Production::default()).store(MemoryStore::new());
    assert!(matches!(sourceless.build(), Err(BuildError::Pipeline(_))));
    let without_plugin = ControlPlane::builder("world")
        .store(MemoryStore::new())
        .source(Text::new("services: {}"))
        .generator(Model)
        .asset_type(AssetType::<Service>::new());
    let refused = without_plugin.build().unwrap_err();
    assert!(
        matches!(refused, BuildError::NoPlugin("world.v1.Service")),
        "{refused}"
    );
}

#[tokio::test]
async fn a_type_is_enforced_or_modelled_only() {
    let both = parts()
        .store(MemoryStore::new())
        .asset_plugin::<Group>(Production::default());
    let refused = both.build().unwrap_err();
    assert!(
        matches!(refused, BuildError::ModelledOnly("world.v1.Group")),
        "{refused}"
    );
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn nobody_is_warned_of_a_type_that_is_not_theirs() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
    let said = || String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        // Another test may come by the warning first, at this very moment, and find that nobody listens: `tracing` keeps
        // that until it is asked to look again.
        for _ in 0..100 {
            tracing::callsite::rebuild_interest_cache();
            parts().store(MemoryStore::new()).build().unwrap();
            if !said().is_empty() {
                break;
            }
        }
    });
    let said = said();
    let warned = |type_name| said.contains(&format!("{type_name:?}"));
    assert!(warned("world.v1.Service"), "{said}");
    assert!(!warned("prodspec.v1.RolloutPolicy"), "{said}");
}

#[tokio::test]
async fn a_policy_says_in_words_why_it_holds() {
    let manifest = "services: {}\npolicies: {slow: {hold: ' ', bake_secs: 99999999}}\n";
    let plane = plane(&Production::default())
        .store(MemoryStore::new())
        .source(Text::new(manifest))
        .validators(validators::standard());
    let checked = plane.build().unwrap().handle().check(&[]).await;
    let refused = checked.unwrap_err().to_string();
    for field in ["payload.hold: say it", "payload.bake_secs: 99999999: bake"] {
        assert!(refused.contains(field), "{field}: {refused}");
    }
}
