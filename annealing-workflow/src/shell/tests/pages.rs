//! Live executions, page by page.

use futures::future::join_all;

use super::*;

#[tokio::test]
async fn r61_all_live_executions_are_read_in_pages() {
    let store = Arc::new(MemoryStore::new());
    let rest = Workflow::new("rest")
        .machine(Machine::waits("rest", Duration::from_secs(3_600)))
        .ends_well(is("rest", "done"))
        .build()
        .unwrap();
    let with = |builder: WorkflowsBuilder<TokioRuntime>| builder.workflow(rest);
    owning(&store, with, async |handle| {
        let n = ExecutionQuery::MAX_LIMIT as u64 + 1;
        let starts = (0..n).map(|_| handle.start(Start::of("rest"), by()));
        assert!(join_all(starts).await.iter().all(Result::is_ok));
        let largest = ExecutionQuery::all().limit(usize::MAX);
        let page = handle.live_page(&largest).await.unwrap();
        let found = (page.executions.len() as u64, page.next);
        assert_eq!(found, (n - 1, Some(n - 1)));
        let mut numbers = Vec::new();
        let note = |it: Execution| numbers.push(it.id.n);
        let all = ExecutionQuery::all();
        handle.each_live(&all, note).await.unwrap();
        assert!(numbers.into_iter().eq(1..=n));
    })
    .await;
}
