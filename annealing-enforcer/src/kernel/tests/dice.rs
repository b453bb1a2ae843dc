//! Random choices for `chaos`: assets, times, and the answers of plugins.

use std::time::Duration;

use plugin_sdk::{Change, Diff, Effects as ChangeEffects, Guard, Pushed, plugin};
use prodspec_model::{
    Asset, AssetRef, Message, TypeName,
    addons::{DependsOn, Edge, Moved, Need, RolloutPolicyRef, Turndown},
};
use serde::{Deserialize, Serialize};

use super::rig::{Thing, destroys, differs, id};
use crate::config::TypeConfig;

#[derive(Serialize, Deserialize)]
struct Other {
    size: u32,
}

impl Message for Other {
    const TYPE: &'static str = "test.v1.Other";
}

#[derive(Serialize, Deserialize)]
struct Idea {
    size: u32,
}

impl Message for Idea {
    const TYPE: &'static str = "test.v1.Idea";
}

pub(super) const ASSETS: u32 = 6;

/// A source of choices: the numbers that proptest drew, then zeros.
pub(super) struct Dice {
    pub(super) drawn: std::vec::IntoIter<u32>,
}

impl Dice {
    pub(super) fn roll(&mut self, sides: u32) -> u32 {
        self.drawn.next().unwrap_or(0) % sides
    }

    pub(super) fn is_over(&self) -> bool {
        self.drawn.len() == 0
    }

    pub(super) fn time(&mut self) -> Duration {
        let times = [
            0, 1, 150, 1_100, 4_000, 12_000, 31_000, 61_000, 310_000, 700_000,
        ];
        Duration::from_millis(times[self.roll(times.len() as u32) as usize])
    }
}

pub(super) fn name(at: u32) -> String {
    format!("a{at}")
}

pub(super) fn asset(dice: &mut Dice, at: u32) -> Asset {
    let size = dice.roll(3);
    let builder = Asset::builder(id(&name(at)));
    let builder = match dice.roll(8) {
        0 => builder.payload(&Idea { size }),
        1 | 2 => builder.payload(&Other { size }),
        _ => builder.payload(&Thing { size }),
    };
    let mut builder = builder.unwrap();
    if dice.roll(3) == 0 {
        let provider = AssetRef {
            id: id(&name((at + 1) % ASSETS)),
        };
        let edges = vec![Edge {
            provider,
            need: Need::Order,
        }];
        builder = builder.addon(&DependsOn { edges }).unwrap();
    }
    if dice.roll(6) == 0 {
        let (reason, approved_by) = ("moved".into(), "me".into());
        builder = builder
            .addon(&Turndown {
                reason,
                approved_by,
            })
            .unwrap();
    }
    if dice.roll(2) == 0 {
        let id = id(["p0", "p1"][dice.roll(2) as usize]);
        let policy = AssetRef { id };
        builder = builder.addon(&RolloutPolicyRef { policy }).unwrap();
    }
    if dice.roll(16) == 0 {
        let from = id(&name(dice.roll(ASSETS)));
        builder = builder.addon(&Moved::from(from)).unwrap();
    }
    builder.build().unwrap()
}

pub(super) fn kinds() -> Vec<TypeConfig> {
    vec![
        TypeConfig::new(TypeName::new(Thing::TYPE).unwrap())
            .guard(Guard::Guarded)
            .diffs(3)
            .pushes(2)
            .turndown(true)
            .renames(true),
        TypeConfig::new(TypeName::new(Other::TYPE).unwrap())
            .diffs(2)
            .pushes(1)
            .push_total(Duration::from_secs(900)),
    ]
}

fn an_error(dice: &mut Dice) -> plugin::Error {
    match dice.roll(5) {
        0 => plugin::Error::permanent("no"),
        1 => plugin::Error::unknown("lost"),
        2 => plugin::Error::Throttled {
            after: dice.time(),
            message: "slowly".into(),
        },
        3 => plugin::Error::Unhealthy {
            message: "ill".into(),
        },
        _ => plugin::Error::transient("down"),
    }
}

pub(super) fn a_diff(dice: &mut Dice, asset: &Asset) -> Result<Diff, plugin::Error> {
    Ok(match dice.roll(12) {
        0..=2 => Diff::in_sync(),
        3..=6 => differs(asset),
        7 => destroys(asset),
        8 => Diff::InProgress {
            check_again_in: dice.time(),
        },
        9 => {
            let summary = format!("so {}", dice.roll(1_000));
            let fields = vec![plugin_sdk::FieldChange::new("at", 0, dice.roll(1_000))];
            let change = Change::new(asset, summary, fields, ChangeEffects::default());
            Diff::differs(change)
        }
        10 => Diff::Foreign {
            owner: "them".into(),
        },
        _ => return Err(an_error(dice)),
    })
}

pub(super) fn a_push(dice: &mut Dice) -> Result<Pushed, plugin::Error> {
    Ok(match dice.roll(6) {
        0..=2 => Pushed::Done,
        3 | 4 => Pushed::InProgress {
            check_again_in: dice.time(),
        },
        _ => return Err(an_error(dice)),
    })
}
