//! Tests of watches. Each file has one topic; what several of them need is here.

mod examples;
mod model;
mod status;

use prodspec_model::{
    AssetId, Digest, IncarnationNo,
    operation::{Concurrency, Per},
};

use super::{Change, IntentWatch, Limits, Made, Start};

fn id(name: &str) -> AssetId {
    AssetId::new(name).unwrap()
}

fn digest(content: &str) -> Option<Digest> {
    (!content.is_empty()).then(|| Digest::of(content.as_bytes()))
}

/// A change of one asset; empty content is that of an asset that the watch does not select.
fn change(asset: &str, before: &str, after: &str) -> Change {
    Change {
        asset: id(asset),
        before: digest(before),
        after: digest(after),
    }
}

fn watch(per: Per, concurrency: Concurrency, at_most: usize) -> IntentWatch {
    let limits = Limits {
        per,
        concurrency,
        at_most,
    };
    IntentWatch::new(limits, IncarnationNo(1))
}

fn names(start: &Start) -> Vec<&str> {
    start.assets.iter().map(|(id, ..)| id.as_str()).collect()
}

/// An edit that an execution of the watch made while incarnation `at` was the newest.
fn own(before: &str, after: &str, at: u32) -> Made {
    Made {
        before: digest(before),
        after: digest(after),
        own: true,
        chain: Vec::new(),
        at: IncarnationNo(at),
    }
}
