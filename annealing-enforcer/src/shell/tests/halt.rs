//! An invariant that does not hold stops one partition, until an operator clears the stop.

use futures::FutureExt;

use super::*;

fn breaks() -> Input {
    Input::Kernel(crate::kernel::Event::Break)
}

fn stopped<T>(answer: Result<T, AskError>) -> String {
    match answer {
        Err(AskError::Stopped { stopped, .. }) => stopped.why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("enforcement is not stopped"),
    }
}

#[tokio::test(start_paused = true)]
async fn violation_stops_the_partition_at_each_start_until_an_operator_clears_it() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    sealed(&store).await;
    let paused = |handle: Handle<TokioRuntime>| async move {
        TokioRuntime::current().sleep(SOON).await;
        handle
    };
    enforced(&store, 1, async |handle| {
        let by = || By::new("ada", "too early");
        let refused = handle.clear_stop(by()).await;
        assert!(
            matches!(refused, Err(AskError::Refused { .. })),
            "{refused:?}"
        );
        handle.inputs.unbounded_send(breaks()).unwrap();
        let handle = paused(handle).await;
        assert!(stopped(handle.status().await).contains("panicked: on purpose"));
    })
    .await;
    // Production is empty now; a start does not repair it.
    enforced_by(&store, InMemoryProduction::new(), async |handle| {
        let handle = paused(handle).await;
        assert!(stopped(handle.status().await).contains("panicked: on purpose"));
        let word = Command::LookNow {
            asset: testing::asset("a").id(),
            by: By::new("ada", "look"),
        };
        stopped(handle.tell(word).await);
        let held = handle.stopped().await.unwrap().unwrap();
        assert!(held.holds());
        handle
            .clear_stop(By::new("ada", "a known bug"))
            .await
            .unwrap();
        assert!(handle.stopped().await.unwrap().is_none());
        let all = Settle::All(IncarnationNo(1));
        handle.wait_settled(all, SOON).await.unwrap();
    })
    .await;
    let partition = PartitionId::new("test").unwrap();
    let kept = control_plane_store::record::load::<control_plane_store::records::Stopped>(
        &*store, &partition, "",
    );
    let kept = kept.await.unwrap().unwrap().value;
    assert_eq!(kept.cleared.unwrap().by, By::new("ada", "a known bug"));
    enforced(&store, 1, async |_| {}).await;
}

#[tokio::test(start_paused = true)]
async fn s9_violation_stops_no_other_partition_of_the_process() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = TokioRuntime::current();
    let member = ProcessLease::join(
        runtime.clone(),
        store.clone(),
        "p".into(),
        crate::shell::TERM,
    );
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = stopped.map(|_| ()).shared();
    let mut running = Vec::new();
    let mut handles = Vec::new();
    for name in ["one", "two"] {
        let partition = calls::sealed_in(&store, name, &["a"]).await;
        let enforcer = Enforcer::builder(runtime.clone(), partition, store.clone())
            .asset_plugin::<testing::Thing>(InMemoryProduction::new())
            .process_lease(member.clone())
            .build()
            .unwrap();
        handles.push(enforcer.handle());
        running.push(tokio::spawn(enforcer.run(stopped.clone())));
    }
    drop(member);
    for handle in &handles {
        let all = Settle::All(IncarnationNo(1));
        handle.wait_settled(all, SOON).await.unwrap();
    }
    handles[0].inputs.unbounded_send(breaks()).unwrap();
    runtime.sleep(SOON).await;
    assert!(
        !running[0].is_finished(),
        "the stopped enforcer keeps running"
    );
    super::halt::stopped(handles[0].status().await);
    assert_eq!(handles[1].status().await.unwrap().unsettled, 0);
    drop(stop);
    for task in running {
        task.await.unwrap().unwrap();
    }
}
