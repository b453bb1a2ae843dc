//! Watches, by example: one at a time, the whole set, replacing, own changes, edited selections, records.

use prodspec_model::{
    Asset, AssetId, IncarnationNo,
    operation::{
        Concurrency::{Forbid, Replace},
        Per,
    },
    tolerant,
};

use super::{change, digest, id, names, own, watch};
use crate::watch::{Changed, IntentWatch, Limits, Made, Progress, WatchedRecord, changes};

fn start_all(watch: &mut IntentWatch) -> Vec<u64> {
    let starts = watch.starts().into_iter();
    let assets = starts.map(|start| start.assets.into_iter().map(|(id, ..)| id).collect());
    let assets: Vec<Vec<AssetId>> = assets.collect();
    assets.iter().map(|assets| watch.started(assets)).collect()
}

#[test]
fn r38_arrivals_departures_and_changes_of_the_selection_are_seen_and_others_are_not() {
    let job = |label: &str, size: u32| {
        let payload = serde_json::json!({ "label": label, "size": size });
        let builder = Asset::builder(id("job/eu"));
        let job = builder.payload_value("test.v1.Job".parse().unwrap(), &payload);
        job.unwrap().build().unwrap()
    };
    // The watch is on the sizes of jobs with the label `web`.
    let select = |job: &Asset| {
        let payload: serde_json::Value = serde_json::from_str(job.payload_json()).unwrap();
        let selected = (payload["label"] == "web").then(|| payload["size"].to_string());
        selected.and_then(|size| digest(&size))
    };
    let (web, bigger, other) = (job("web", 1), job("web", 2), job("db", 1));
    let seen = |before: Option<&Asset>, after: Option<&Asset>| {
        changes([(id("job/eu"), before, after)], select)
    };
    let change = change("job/eu", "1", "2");
    assert_eq!(seen(Some(&web), Some(&bigger)), [change]);
    assert_eq!(seen(None, Some(&web)).len(), 1);
    assert_eq!(seen(Some(&web), None).len(), 1);
    assert_eq!(seen(Some(&web), Some(&other)).len(), 1);
    assert_eq!(seen(Some(&other), Some(&web)).len(), 1);
    assert_eq!(seen(Some(&other), Some(&job("db", 2))), []);
    assert_eq!(seen(None, Some(&other)), []);
}

#[test]
fn r38_at_most_so_many_runs_are_live_and_the_oldest_changes_start_first() {
    let mut watch = watch(Per::Asset, Forbid, 2);
    let first = ["c", "b"].map(|name| change(name, "1", "2"));
    watch.took(IncarnationNo(2), first.into());
    watch.took(
        IncarnationNo(3),
        vec![change("a", "1", "2"), change("c", "2", "3")],
    );
    let starts = watch.starts();
    assert_eq!(starts.iter().map(names).collect::<Vec<_>>(), [["b"], ["c"]]);
    let runs = start_all(&mut watch);
    assert!(watch.starts().is_empty());
    watch.ended(runs[1]);
    assert_eq!(names(&watch.starts()[0]), ["a"]);
}

#[test]
fn r38_run_of_the_watch_gets_the_whole_set() {
    let mut watch = watch(Per::Watch, Forbid, 4);
    watch.took(
        IncarnationNo(2),
        vec![change("a", "1", "2"), change("b", "", "1")],
    );
    assert_eq!(names(&watch.starts()[0]), ["a", "b"]);
    let runs = start_all(&mut watch);
    watch.took(
        IncarnationNo(3),
        vec![change("c", "1", ""), change("a", "2", "1")],
    );
    assert!(watch.starts().is_empty());
    watch.ended(runs[0]);
    assert_eq!(names(&watch.starts()[0]), ["a", "c"]);
}

#[test]
fn r38_replacing_watch_cancels_the_run_whose_content_is_old() {
    let mut watch = watch(Per::Asset, Replace, 4);
    watch.took(
        IncarnationNo(2),
        vec![change("a", "1", "2"), change("b", "1", "2")],
    );
    let runs = start_all(&mut watch);
    assert!(watch.cancels().is_empty());
    watch.took(IncarnationNo(3), vec![change("a", "2", "3")]);
    assert_eq!(watch.cancels(), [runs[0]]);
    assert!(watch.starts().is_empty());
    watch.ended(runs[0]);
    assert!(watch.cancels().is_empty());
    assert_eq!(names(&watch.starts()[0]), ["a"]);
    // Back to what the cancelled run of `a` got: that run may have done nothing.
    let run = start_all(&mut watch)[0];
    watch.took(IncarnationNo(4), vec![change("a", "3", "4")]);
    watch.replaced(run);
    watch.took(IncarnationNo(5), vec![change("a", "4", "3")]);
    watch.ended(run);
    assert_eq!(names(&watch.starts()[0]), ["a"]);
    start_all(&mut watch);
    // Back to what the live run of `b` got: nothing to cancel.
    watch.took(IncarnationNo(6), vec![change("b", "2", "3")]);
    watch.took(IncarnationNo(7), vec![change("b", "3", "2")]);
    assert!(watch.cancels().is_empty());
}

#[test]
fn r39_own_change_starts_nothing_and_the_change_of_a_person_among_it_does() {
    let mut watch = watch(Per::Asset, Forbid, 4);
    watch.made(&id("a"), own("1", "2", 1));
    watch.took(IncarnationNo(2), vec![change("a", "1", "2")]);
    assert!(watch.starts().is_empty());
    assert_eq!(watch.progress().counts.own, 1);
    // The next change to the same content is not its own.
    watch.took(IncarnationNo(3), vec![change("a", "2", "1")]);
    let runs = start_all(&mut watch);
    watch.ended(runs[0]);
    watch.took(IncarnationNo(4), vec![change("a", "1", "2")]);
    let runs = start_all(&mut watch);
    watch.ended(runs[0]);
    // A person's change was read, and not sealed, when the edit was made on it.
    watch.made(&id("a"), own("3", "4", 4));
    watch.took(IncarnationNo(5), vec![change("a", "2", "4")]);
    assert_eq!(names(&watch.starts()[0]), ["a"]);
}

#[test]
fn r39_own_change_on_top_of_one_that_waits_does_not_hide_it() {
    let mut watch = watch(Per::Asset, Forbid, 4);
    watch.took(IncarnationNo(2), vec![change("a", "1", "2")]);
    let run = watch.started(&[id("a")]);
    watch.took(IncarnationNo(3), vec![change("a", "2", "3")]);
    watch.made(&id("a"), own("3", "4", 3));
    watch.took(IncarnationNo(4), vec![change("a", "3", "4")]);
    watch.ended(run);
    let start = watch.starts().remove(0);
    let (_, before, after) = &start.assets[0];
    assert_eq!((before.digest, after.digest), (digest("2"), digest("4")));
}

#[test]
fn r39_others_edits_that_took_back_each_other_do_not_hide_an_own_one() {
    let other = |before, after| Made {
        own: false,
        chain: vec!["other-1".to_owned()],
        ..own(before, after, 1)
    };
    let started_by = |edits: Vec<Made>| {
        let mut watch = watch(Per::Asset, Forbid, 4);
        edits.into_iter().for_each(|it| watch.made(&id("a"), it));
        watch.took(IncarnationNo(2), vec![change("a", "1", "4")]);
        let starts = watch.starts().into_iter();
        starts.map(|start| start.chain).collect::<Vec<_>>()
    };
    let back = || vec![other("1", "2"), other("2", "1")];
    assert!(started_by([back(), vec![own("1", "4", 1)]].concat()).is_empty());
    let between = [other("3", "2"), other("2", "3")];
    let between = [&[own("1", "3", 1)], &between[..], &[own("3", "4", 1)]];
    assert!(started_by(between.concat()).is_empty());
    // An edit of others is among those that lead there.
    let leads = [back(), vec![other("1", "3"), own("3", "4", 1)]].concat();
    assert_eq!(started_by(leads), [["other-1"]]);
}

#[test]
fn r39_own_edit_that_a_person_undid_hides_no_later_change() {
    let mut watch = watch(Per::Asset, Forbid, 4);
    watch.made(&id("a"), own("1", "2", 1));
    // The next incarnation has the edit, and a person's edit back.
    watch.took(IncarnationNo(2), vec![]);
    watch.shown(IncarnationNo(2));
    watch.took(IncarnationNo(3), vec![change("a", "1", "2")]);
    assert_eq!(names(&watch.starts()[0]), ["a"]);
}

#[test]
fn r38_edited_selection_counts_from_the_moment_it_is_taken() {
    let mut watch = watch(Per::Asset, Forbid, 4);
    watch.took(
        IncarnationNo(2),
        vec![change("a", "1", "2"), change("b", "1", "2")],
    );
    let run = watch.started(&[id("a")]);
    watch.selects_anew(IncarnationNo(3));
    assert!(watch.starts().is_empty());
    // For the live run, too, what the old selection gave means nothing any more.
    watch.took(IncarnationNo(4), vec![change("a", "9", "2")]);
    watch.ended(run);
    let start = watch.starts().remove(0);
    let (asset, before, _) = &start.assets[0];
    assert_eq!((asset, before.digest), (&id("a"), digest("9")));
    watch.limits(Limits {
        per: Per::Asset,
        concurrency: Forbid,
        at_most: 0,
    });
    assert!(watch.starts().is_empty());
}

#[test]
fn record_is_written_with_changes_and_every_32_incarnations() {
    let mut watch = watch(Per::Asset, Forbid, 4);
    assert!(watch.take_changed().is_some());
    for no in 2..33 {
        watch.took(IncarnationNo(no), vec![]);
        assert!(watch.take_changed().is_none(), "{no}");
    }
    watch.took(IncarnationNo(33), vec![]);
    assert_eq!(
        watch.take_changed().unwrap().progress.handled,
        IncarnationNo(33)
    );
    watch.took(IncarnationNo(34), vec![change("a", "1", "2")]);
    let Changed {
        progress: record,
        assets,
    } = watch.take_changed().unwrap();
    assert_eq!((record.handled, assets.len()), (IncarnationNo(34), 1));
}

#[test]
fn records_of_newer_versions_are_read() {
    let mut watch = watch(Per::Asset, Forbid, 4);
    watch.took(IncarnationNo(2), vec![change("a", "1", "2")]);
    watch.started(&[id("a")]);
    watch.took(IncarnationNo(3), vec![change("a", "2", "3")]);
    watch.made(&id("a"), own("3", "4", 3));
    let Changed {
        progress: record,
        assets,
    } = watch.take_changed().unwrap();
    let stored = serde_json::to_value(record).unwrap();
    for (place, newer) in tolerant::newer(&stored, &[]) {
        let read: Progress = serde_json::from_value(newer).expect(&place);
        assert_eq!(read, *record);
    }
    let watched = assets[0].1.unwrap();
    let stored = serde_json::to_value(watched).unwrap();
    for (place, newer) in tolerant::newer(&stored, &[]) {
        let read: WatchedRecord = serde_json::from_value(newer).expect(&place);
        assert_eq!(read, *watched);
    }
}
