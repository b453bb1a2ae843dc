//! Questions to the dispatch stack.

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, Dispatch, DispatchPlugin, DispatchRequest, check::CheckName, service::DispatchLayer,
};
use tower::Layer;

use super::*;

/// Panics when it is asked first, and has no answer at once when it is asked again.
struct Late(AtomicU32);

#[async_trait]
impl DispatchPlugin for Late {
    fn name(&self) -> CheckName {
        "late".into()
    }

    async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => panic!("a bug of the layer"),
            1 => tokio::task::yield_now().await,
            _ => {}
        }
        Ok(request.go())
    }
}

#[tokio::test(start_paused = true)]
async fn r32_stack_in_memory_that_panics_or_is_late_is_asked_again() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let builder = |builder| {
        let builder = with(&press)(builder).dispatch_in_memory();
        builder.dispatch(|base| DispatchLayer::new(Late(AtomicU32::new(0))).layer(base))
    };
    let begun = tokio::time::Instant::now();
    owning(&store, builder, async |handle| {
        let id = handle.start(Start::of("season"), by()).await.unwrap().id;
        while let Err(error) = handle.say(&id, Say::answer("go", "yes"), by()).await {
            assert!(matches!(error, AskError::Refused(_)), "{error}");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let ended = handle.wait(&id, SOON).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Succeeded);
    })
    .await;
    // The panic was a delay, and the answer that came later was none.
    let took = begun.elapsed();
    assert!((60..65).contains(&took.as_secs()), "{took:?}");
}
