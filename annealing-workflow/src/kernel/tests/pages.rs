//! Live executions, page by page.

use plugin_sdk::operation::{ExecutionId, Start};

use super::*;
use crate::query::{ExecutionPage, ExecutionQuery, Only};

impl World {
    /// A page of the live executions.
    pub(super) fn page(&mut self, query: &ExecutionQuery) -> ExecutionPage {
        match self.hear(Command::ShowPage(Box::new(query.clone()))) {
            Reply::Page(page) => page,
            other => panic!("{other:?}"),
        }
    }
}

/// `rest` waits for a time, `ask` for a person, and `send` does not know what its call did.
fn world() -> World {
    of_all([function("send", Repeat::Never, Guard::Advisory)])
}

fn of_all(functions: impl IntoIterator<Item = Function>) -> World {
    let rest = Workflow::new("rest")
        .machine(Machine::waits("rest", Duration::from_secs(60)))
        .ends_well(is("rest", "done"));
    let ask = Workflow::new("ask")
        .machine(Machine::asks("go", "Go?", ["yes", "no"]))
        .ends_well(is("go", "yes"))
        .ends_badly(is("go", "no"));
    let send = Workflow::new("send")
        .machine(Machine::calls("send", "send"))
        .ends_well(is("send", "done"));
    World::new([rest, ask, send].map(|it| it.build().unwrap()), functions)
}

/// Starts an execution of `workflow`, which has the label `app`.
fn start(world: &mut World, workflow: &str, app: &str) -> ExecutionId {
    match world.start_with(Start::of(workflow).label("app", app).label("size", "big")) {
        Reply::Started { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

fn numbers(page: &ExecutionPage) -> Vec<u64> {
    page.executions.iter().map(|it| it.id.n).collect()
}

#[test]
fn r62_pages_have_each_execution_once_that_is_live_throughout() {
    let mut world = world();
    for n in 0..7 {
        start(&mut world, ["rest", "ask"][n % 2], "shop");
    }
    world.sync();
    let query = ExecutionQuery::all().limit(2);
    let first = world.page(&query);
    assert_eq!((numbers(&first), first.next), (vec![1, 2], Some(2)));
    // The last one that was seen ends, and so does the next one; another one begins.
    for ends in [2, 4] {
        world.say(&ExecutionId::new("ask", ends), Say::Cancel);
    }
    start(&mut world, "rest", "shop");
    world.sync();
    let second = world.page(&query.clone().after(2));
    assert_eq!((numbers(&second), second.next), (vec![3, 5], Some(5)));
    let third = world.page(&query.clone().after(5));
    assert_eq!((numbers(&third), third.next), (vec![6, 7], Some(7)));
    let last = world.page(&query.after(7));
    assert_eq!((numbers(&last), last.next), (vec![8], None));
    let none = world.page(&ExecutionQuery::all().after(u64::MAX));
    assert_eq!(none, ExecutionPage::default());
}

#[test]
fn executions_are_asked_for_by_workflow_labels_and_what_a_person_has_to_do() {
    let mut world = world();
    for (workflow, app) in [("rest", "shop"), ("ask", "shop"), ("ask", "blog")] {
        start(&mut world, workflow, app);
    }
    start(&mut world, "send", "blog");
    world.sync();
    world.answer("send", Err(plugin::Error::unknown("the connection broke")));
    world.say(&ExecutionId::new("rest", 1), Say::Pause);
    world.sync();
    let all = ExecutionQuery::all;
    for (query, expected) in [
        (all(), &[1_u64, 2, 3, 4][..]),
        (all().workflow("ask"), &[2, 3]),
        (all().workflow("gone"), &[]),
        (all().label("app", "shop"), &[1, 2]),
        (all().label("app", "shop").label("size", "big"), &[1, 2]),
        (all().label("app", "shop").label("size", "small"), &[]),
        (all().label("region", ""), &[]),
        (all().workflow("ask").label("app", "blog"), &[3]),
        (all().only(Only::Asking), &[2, 3]),
        (all().only(Only::Asking).label("app", "shop"), &[2]),
        (all().only(Only::Parked), &[4]),
        (all().only(Only::Paused), &[1]),
    ] {
        let page = world.page(&query);
        assert_eq!(numbers(&page), expected, "{query:?}");
        assert_eq!(page.next, None, "{query:?}");
    }
}

#[test]
fn r42_executions_are_asked_for_whose_function_is_not_registered() {
    let mut world = of_all([keyed("send")]);
    let [_, id] = ["rest", "send"].map(|workflow| start(&mut world, workflow, "shop"));
    world.sync();
    world.without("send");
    world.crash();
    let query = ExecutionQuery::all().only(Only::Missing);
    let page = world.page(&query);
    assert_eq!(numbers(&page), [id.n]);
    let why = &page.executions[0].waits().next().unwrap().1.why;
    assert_eq!(
        why,
        "`send` is not registered; start a program that registers it, or skip the step if no call of it is open"
    );
}

#[test]
fn r61_page_looks_at_a_limited_number_of_executions_and_says_where_it_stopped() {
    let mut world = world();
    for workflow in ["rest", "rest", "rest", "ask", "rest"] {
        start(&mut world, workflow, "shop");
    }
    let (mut query, mut seen) = (ExecutionQuery::all().workflow("ask"), Vec::new());
    loop {
        let page = world.kernel.show_page(&query, 2);
        seen.push((numbers(&page), page.next));
        let Some(next) = page.next else { break };
        query = query.after(next);
    }
    assert_eq!(
        seen,
        [(vec![], Some(2)), (vec![4], Some(4)), (vec![], None)]
    );
    let limits = [0, 1, 3, usize::MAX].map(|limit| {
        let page = world.page(&ExecutionQuery::all().limit(limit));
        page.executions.len()
    });
    assert_eq!(limits, [1, 1, 3, 5]);
}

#[test]
fn query_is_read_as_it_is_written_and_unknown_fields_are_refused() {
    let query = ExecutionQuery::all().label("app", "shop").after(7);
    let query = query.only(Only::Parked);
    let written = serde_json::to_value(&query).unwrap();
    assert_eq!(
        written,
        json!({ "labels": { "app": "shop" }, "only": "parked", "after": 7, "limit": 100 })
    );
    let read = serde_json::from_value::<ExecutionQuery>(written).unwrap();
    assert_eq!(read, query);
    let all = serde_json::from_value::<ExecutionQuery>(json!({})).unwrap();
    assert_eq!(all, ExecutionQuery::all());
    let wrong = serde_json::from_value::<ExecutionQuery>(json!({ "labelz": {} }));
    assert!(wrong.unwrap_err().to_string().contains("labelz"));
}
