//! Calls that begin only after something was read for them.

use tokio::sync::watch;

use super::*;
use crate::view::WaitFor;

type Sender = mpsc::UnboundedSender<FeedItem>;

/// Tells leases and standings as the test says.
#[derive(Default)]
struct Told {
    /// The sender of each feed, the lane's first, and how many assets were asked for.
    feeds: watch::Sender<(Vec<Sender>, usize)>,
}

impl Told {
    fn lease(&self, until: u64) {
        self.tell(0, FeedItem::Lease(Mono(until)));
    }

    fn tell(&self, feed: usize, item: FeedItem) {
        self.feeds.borrow().0[feed].unbounded_send(item).unwrap();
    }

    async fn is_asked(&self, assets: usize) {
        let mut feeds = self.feeds.subscribe();
        feeds.wait_for(|(_, asked)| *asked >= assets).await.unwrap();
    }

    /// Tells the standing of the asset in the newest feed.
    fn stands(&self) {
        let since = testing::NOW;
        let state = SyncState::InSync { since };
        let standing = Standing::at(Pin::Default, Some(Digest([7; 32])), state);
        let standing = ("job/eu".parse().unwrap(), standing);
        let newest = self.feeds.borrow().0.len() - 1;
        self.tell(newest, FeedItem::Standings(vec![standing]));
    }
}

struct Port(Arc<Told>);

impl Enforcement for Port {
    fn feed(&self) -> Feed {
        let (sender, items) = mpsc::unbounded();
        let assets = ["job/eu"].map(testing::asset);
        let took = FeedItem::Took(testing::incarnation(1, assets));
        let begin = [FeedItem::Lease(Mono(u64::MAX)), took];
        self.0.feeds.send_modify(|(feeds, _)| feeds.push(sender));
        let told = self.0.clone();
        let follow = move |what| {
            if let Follow::Assets(assets) = what {
                told.feeds.send_modify(|(_, all)| *all += assets.len());
            }
        };
        Feed::new(stream::iter(begin).chain(items), follow)
    }
}

/// The standings that a function needs come when the lease is over: the call waits for a fresh one.
#[tokio::test]
async fn r24_call_that_was_prepared_beyond_the_lease_waits_for_the_next() {
    let (store, told) = (Arc::new(MemoryStore::new()), Arc::new(Told::default()));
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let look = move |request: FunctionRequest| {
        let calls = counted.clone();
        async move {
            if request.required("jobs").is_none() {
                let jobs = Requirement::all::<Thing>().with_status();
                return Ok(Ran::needs("jobs", jobs));
            }
            calls.fetch_add(1, Ordering::Relaxed);
            Ok(Answer::new().done())
        }
    };
    let workflow = Workflow::new("w")
        .machine(Machine::calls("look", "look"))
        .ends_well(is("look", "done"));
    let build = |builder: WorkflowsBuilder<TokioRuntime>| {
        let info = FunctionInfo::new("look").repeat(Repeat::Safe);
        builder
            .function(from_fn(info, look))
            .workflow(workflow.build().unwrap())
    };
    owning_by(
        &store,
        Arc::new(Port(told.clone())),
        build,
        async |handle| {
            let started = handle.start(Start::of("w"), by()).await.unwrap();
            told.is_asked(1).await;
            told.lease(0);
            assert_eq!(all_live(&handle).await.len(), 1, "the lease was heard");
            told.stands();
            loop {
                let live = handle.live(&started.id).await.unwrap();
                let wait = live.map(|live| live.machines[0].wait.clone().unwrap());
                if wait.is_none_or(|wait| wait.what != WaitFor::Call) {
                    break;
                }
                tokio::task::yield_now().await;
            }
            assert_eq!(calls.load(Ordering::Relaxed), 0, "there was no lease");
            told.lease(u64::MAX);
            told.is_asked(2).await;
            told.stands();
            let ended = handle.wait(&started.id, SOON).await.unwrap();
            assert_eq!(ended.outcome, Outcome::Succeeded);
            assert_eq!(calls.load(Ordering::Relaxed), 1);
        },
    )
    .await;
}
