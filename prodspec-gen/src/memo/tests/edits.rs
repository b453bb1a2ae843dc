//! The content of all sources in the tests of incremental runs, and random edits of it.

use std::collections::BTreeMap;

use plugin_sdk::{Problem, Reading};
use prodspec_model::SourceName;
use proptest::prelude::*;

use super::generators::{KINDS, Thing};
use crate::{
    memo::Readings,
    testing::{document, reading},
};

/// The place of a thing: source, file, document.
pub(super) type Place = (u8, u8, u8);

/// The content of all sources.
#[derive(Debug, Clone, Default)]
pub(super) struct World {
    pub(super) things: BTreeMap<u8, (Place, Thing)>,
    /// A thing that is written a second time, at another place.
    pub(super) twin: Option<(u8, Place)>,
    pub(super) lines: BTreeMap<(u8, u8), u32>,
    pub(super) owner: String,
}

#[derive(Debug, Clone)]
pub(super) enum Edit {
    Put(u8, Place, Thing),
    Retype(u8, usize),
    Drop(u8),
    Rename(u8, u8),
    Move(u8, Place),
    RenameFile(u8, u8, u8),
    Shift(u8, u8),
    Owner(String),
    Twin(Option<(u8, Place)>),
}

/// The edits before one run, and the faults of that run.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) edits: Vec<Edit>,
    /// The source that cannot be read in this run.
    pub(super) unread: Option<u8>,
    /// Whether the process restarts before the run.
    pub(super) restarted: bool,
}

impl World {
    pub(super) fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Put(name, place, thing) => drop(self.things.insert(name, (place, thing))),
            Edit::Retype(name, kind) => {
                if let Some((_, thing)) = self.things.get_mut(&name) {
                    thing.kind = kind;
                }
            }
            Edit::Drop(name) => drop(self.things.remove(&name)),
            Edit::Rename(from, to) => {
                if let Some(thing) = self.things.remove(&from) {
                    self.things.insert(to, thing);
                }
            }
            Edit::Move(name, to) => {
                if let Some((place, _)) = self.things.get_mut(&name) {
                    *place = to;
                }
            }
            Edit::RenameFile(source, from, to) => {
                for ((of, file, _), _) in self.things.values_mut() {
                    if (*of, *file) == (source, from) {
                        *file = to;
                    }
                }
            }
            Edit::Shift(source, file) => *self.lines.entry((source, file)).or_default() += 1,
            Edit::Owner(owner) => self.owner = owner,
            Edit::Twin(twin) => self.twin = twin,
        }
    }

    /// All documents of a source. Missing documents before the last of a file are empty.
    pub(super) fn documents(&self, source: u8, name: &str) -> Reading {
        let mut files: BTreeMap<u8, Vec<serde_json::Map<String, serde_json::Value>>> =
            BTreeMap::new();
        let twin = self.twin.iter().filter_map(|(name, place)| {
            let (_, thing) = self.things.get(name)?;
            Some((name, (*place, thing.clone())))
        });
        let things = self.things.iter().map(|(name, at)| (name, at.clone()));
        for (name, ((of, file, nth), thing)) in things.chain(twin) {
            if of == source {
                let documents = files.entry(file).or_default();
                documents.resize(documents.len().max(nth as usize + 1), Default::default());
                let thing = serde_json::to_value(thing).unwrap();
                documents[nth as usize].insert(format!("t{name}"), thing);
            }
        }
        let documents = files.into_iter().flat_map(|(file, documents)| {
            let line = self.lines.get(&(source, file)).copied().unwrap_or(1);
            let documents = documents.into_iter().enumerate();
            documents.map(move |(nth, things)| {
                let at = line + 10 * nth as u32;
                let document = document(name, &format!("f{file}"), at, things.into());
                plugin_sdk::Document::new(
                    name,
                    &format!("f{file}"),
                    nth as u32,
                    document.root().clone(),
                )
            })
        });
        reading(documents.collect())
    }

    pub(super) fn readings(&self, unread: Option<u8>) -> Readings {
        let owner = document("owners", "owners", 1, self.owner.clone().into());
        [
            ("docs", self.documents(0, "docs")),
            ("more", self.documents(1, "more")),
            ("owners", reading(vec![owner])),
        ]
        .into_iter()
        .enumerate()
        .map(|(nth, (name, reading))| {
            let reading = match unread {
                Some(unread) if usize::from(unread) == nth => Err(Problem::new("unread").into()),
                _ => Ok(reading.into()),
            };
            (SourceName(name.into()), reading)
        })
        .collect()
    }
}

fn name() -> impl Strategy<Value = u8> {
    0_u8..5
}

fn place() -> impl Strategy<Value = Place> {
    (0_u8..2, 0_u8..3, 0_u8..3)
}

fn thing() -> impl Strategy<Value = Thing> {
    (0..KINDS.len(), 0_u64..14).prop_map(|(kind, n)| Thing { kind, n })
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        6 => (name(), place(), thing()).prop_map(|(name, place, thing)| Edit::Put(name, place, thing)),
        4 => (name(), 0..KINDS.len()).prop_map(|(name, kind)| Edit::Retype(name, kind)),
        2 => name().prop_map(Edit::Drop),
        2 => (name(), name()).prop_map(|(from, to)| Edit::Rename(from, to)),
        2 => (name(), place()).prop_map(|(name, place)| Edit::Move(name, place)),
        1 => (0_u8..2, 0_u8..3, 0_u8..3).prop_map(|(source, from, to)| Edit::RenameFile(source, from, to)),
        1 => (0_u8..2, 0_u8..3).prop_map(|(source, file)| Edit::Shift(source, file)),
        1 => "[ab]?".prop_map(Edit::Owner),
        1 => prop::option::weighted(0.3, (name(), place())).prop_map(Edit::Twin),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let edits = prop::collection::vec(edit(), 0..4);
    let unread = prop::option::weighted(0.05, 0_u8..3);
    (edits, unread, prop::bool::weighted(0.1)).prop_map(|(edits, unread, restarted)| Step {
        edits,
        unread,
        restarted,
    })
}
