use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::{AssetRef, Message};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Thing {
    n: u32,
    to: Vec<AssetRef>,
}

impl Message for Thing {
    const TYPE: &'static str = "test.v1.Thing";
}

fn id(n: u32) -> AssetId {
    AssetId::new(&format!("thing/{:05}", n * 7)).unwrap()
}

fn asset(at: u32, n: u32, to: &[u32]) -> Asset {
    let to = to.iter().map(|&to| AssetRef::to(id(to))).collect();
    Asset::builder(id(at))
        .payload(&Thing { n, to })
        .unwrap()
        .build()
        .unwrap()
}

type Model = BTreeMap<String, Asset>;

/// One edit: the assets to put, and the assets to remove.
type Step = (Vec<(u32, u32, Vec<u32>)>, Vec<u32>);

fn steps(ids: u32, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let refs = prop::collection::vec(0..ids, 0..3);
    let put = prop::collection::vec((0..ids, 0..4u32, refs), 0..most);
    let removed = prop::collection::vec(0..ids, 0..most / 2);
    prop::collection::vec((put, removed), 1..12)
}

/// The snapshot and the model after each step, the empty ones first.
fn play(steps: &[Step]) -> Vec<(Snapshot, Model)> {
    let mut states = vec![(Snapshot::empty(), Model::new())];
    for (no, (put, removed)) in steps.iter().enumerate() {
        let (snapshot, model) = states.last().unwrap();
        let put: Vec<Asset> = put.iter().map(|(at, n, to)| asset(*at, *n, to)).collect();
        let removed: Vec<AssetId> = removed.iter().map(|&at| id(at)).collect();
        let mut model = model.clone();
        for id in &removed {
            model.remove(id.as_str());
        }
        for asset in &put {
            model.insert(asset.id_str().to_owned(), asset.clone());
        }
        let no = IncarnationNo(no as u32 + 1);
        states.push((snapshot.edit(no, put, &removed), model));
    }
    states
}

fn built(model: &Model) -> Snapshot {
    Snapshot::empty().edit(IncarnationNo(1), model.values().cloned().collect(), &[])
}

fn referrers(model: &Model, target: &AssetId) -> Vec<AssetId> {
    let refers = |asset: &&Asset| asset.references().contains(target);
    model.values().filter(refers).map(Asset::id).collect()
}

/// Counts the live units of each pack by a walk through both trees.
fn reached(snapshot: &Snapshot) -> BTreeMap<u32, u32> {
    fn below(inner: &Inner, at: Location, height: u8, found: &mut BTreeMap<u32, u32>) {
        let tail = inner.packs.tail(at);
        *found.entry(at.pack).or_default() += pack::units(tail);
        if height > 0 {
            let node = node::Node::read(tail);
            if node.tree().locates(node.level()) {
                for nth in 0..node.count() {
                    below(inner, node.location(nth), height - 1, found);
                }
            }
        }
    }
    let mut found = BTreeMap::new();
    for root in [snapshot.0.assets, snapshot.0.references]
        .into_iter()
        .flatten()
    {
        let height = snapshot.0.packs.node(root).level() + 1;
        below(&snapshot.0, root, height, &mut found);
    }
    found
}

fn agree(snapshot: &Snapshot, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(snapshot.len(), model.len());
    prop_assert!(snapshot.iter().eq(model.values().cloned()));
    prop_assert_eq!(snapshot.digest(), built(model).digest());
    let live = snapshot.0.packs.0.iter().map(|slot| (slot.no, slot.live));
    prop_assert_eq!(live.collect::<BTreeMap<_, _>>(), reached(snapshot));
    prop_assert!(snapshot.0.packs.0.len() <= 200);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_sequence_of_edits_gives_the_same_tree_as_one_edit(small in steps(60, 20), large in steps(3_000, 900)) {
        for (snapshot, model) in play(&small).iter().chain(&play(&large)) {
            agree(snapshot, model)?;
        }
    }

    #[test]
    fn lookups_agree_with_a_map(steps in steps(300, 200), from in 0..2_200u32) {
        let states = play(&steps);
        let (snapshot, model) = states.last().unwrap();
        for at in 0..310 {
            let id = id(at);
            prop_assert_eq!(snapshot.get(id.as_str()), model.get(id.as_str()).cloned());
            prop_assert_eq!(snapshot.contains(id.as_str()), model.contains_key(id.as_str()));
            prop_assert_eq!(snapshot.referrers(id.as_str()), referrers(model, &id));
        }
        let from = format!("thing/{from:05}");
        prop_assert!(snapshot.iter_from(&from).eq(model.range(from.clone()..).map(|(_, asset)| asset.clone())));
        let prefix = &from[..from.len() - 2];
        let within = model.values().filter(|asset| asset.id_str().starts_with(prefix));
        prop_assert!(snapshot.iter_prefix(prefix).eq(within.cloned()));
    }

    #[test]
    fn diff_of_any_two_snapshots_agrees_with_their_maps(steps in steps(1_500, 300), a in 0..12usize, b in 0..12usize) {
        let states = play(&steps);
        let ((old, before), (new, after)) = (&states[a % states.len()], &states[b % states.len()]);
        let ids: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let change = |id: &&String| Change { before: before.get(*id).cloned(), after: after.get(*id).cloned() };
        let expected: Vec<Change> = ids.iter().map(change).filter(|change| change.before != change.after).collect();
        prop_assert_eq!(&old.diff(new), &expected);
        prop_assert_eq!(&old.diff(&built(after)), &expected);
        let changed = old.diff_locations(new).into_iter().filter(|moved| moved.changed).count();
        prop_assert_eq!(changed, expected.len());
    }

    #[test]
    fn locations_updated_from_each_diff_stay_valid(first in steps(400, 300), later in prop::collection::vec((0..400u32, 5..9u32), 130..200)) {
        let (mut snapshot, mut model) = play(&first).pop().unwrap();
        let mut places: BTreeSet<Location> = snapshot.iter().map(|asset| snapshot.locate(asset.id_str()).unwrap()).collect();
        for (no, (at, n)) in later.into_iter().enumerate() {
            let asset = asset(at, n, &[at / 2]);
            model.insert(asset.id_str().to_owned(), asset.clone());
            let newer = snapshot.edit(IncarnationNo(100 + no as u32), vec![asset], &[]);
            for moved in snapshot.diff_locations(&newer) {
                if let Some(before) = moved.before {
                    prop_assert!(places.remove(&before));
                }
                places.extend(moved.after);
            }
            snapshot = newer;
        }
        agree(&snapshot, &model)?;
        let mut held: Vec<Asset> = places.iter().filter_map(|place| snapshot.at(*place)).collect();
        held.sort_by(|a, b| a.id_str().cmp(b.id_str()));
        prop_assert!(held.iter().eq(model.values()));
    }

    #[test]
    fn loaded_snapshot_equals_the_saved_snapshot(steps in steps(500, 200)) {
        let states = play(&steps);
        let (snapshot, model) = states.last().unwrap();
        let root: Root = serde_json::from_str(&serde_json::to_string(&snapshot.root()).unwrap()).unwrap();
        let packs = snapshot.packs().map(|pack| Pack::check(pack.no(), pack.bytes().to_vec(), pack.digest()).unwrap());
        let loaded = Snapshot::load(&root, packs.collect::<Vec<_>>()).unwrap();
        agree(&loaded, model)?;
        prop_assert!(snapshot.diff(&loaded).is_empty());
        prop_assert!(snapshot.diff_locations(&loaded).is_empty());
        let edited = loaded.edit(IncarnationNo(50), vec![asset(3, 9, &[4])], &[]);
        prop_assert_eq!(edited.digest(), snapshot.edit(IncarnationNo(51), vec![asset(3, 9, &[4])], &[]).digest());
    }
}

#[test]
fn edit_without_changes_returns_the_same_snapshot() {
    let assets: Vec<Asset> = (0..100).map(|at| asset(at, 1, &[])).collect();
    let first = Snapshot::empty().edit(IncarnationNo(1), assets.clone(), &[]);
    let again = first.edit(IncarnationNo(2), assets, &[id(100)]);
    assert!(Arc::ptr_eq(&first.0, &again.0));
}

#[test]
fn second_edit_of_a_draft_continues_its_pack() {
    let first = Snapshot::empty().edit(
        IncarnationNo(1),
        (0..500).map(|at| asset(at, 1, &[])).collect(),
        &[],
    );
    let draft = first.edit(IncarnationNo(2), vec![asset(3, 2, &[4])], &[]);
    let final_one = draft.edit(IncarnationNo(2), vec![asset(3, 3, &[5])], &[id(7)]);
    assert_eq!(final_one.packs().count(), 2);
    assert_eq!(final_one.new_pack().unwrap().no(), IncarnationNo(2));
    assert_eq!(final_one.get(id(3).as_str()), Some(asset(3, 3, &[5])));
    assert_eq!(final_one.referrers(id(5).as_str()), [id(3)]);
    assert_eq!(draft.get(id(3).as_str()), Some(asset(3, 2, &[4])));
    assert_eq!(final_one.diff(&first).len(), 2);
    assert_eq!(final_one.0.packs.0[1].live, reached(&final_one)[&2]);
}

#[test]
fn pack_with_any_flipped_or_missing_byte_is_refused() {
    let snapshot = Snapshot::empty().edit(
        IncarnationNo(1),
        (0..20).map(|at| asset(at, 1, &[at + 1])).collect(),
        &[],
    );
    let pack = snapshot.new_pack().unwrap();
    let check = |bytes: Vec<u8>| Pack::check(pack.no(), bytes, pack.digest());
    assert!(check(pack.bytes().to_vec()).is_ok());
    for at in 0..pack.bytes().len() {
        let mut bad = pack.bytes().to_vec();
        bad[at] ^= 1 << (at % 8);
        assert_eq!(check(bad).unwrap_err(), DamagedPack { no: pack.no() });
        assert!(check(pack.bytes()[..at].to_vec()).is_err());
    }
}

#[test]
fn root_that_does_not_match_its_packs_is_refused() {
    let snapshot = Snapshot::empty().edit(
        IncarnationNo(1),
        (0..90).map(|at| asset(at, 1, &[at + 1])).collect(),
        &[],
    );
    let missing = Snapshot::load(&snapshot.root(), []);
    assert!(matches!(missing, Err(LoadError::Missing(IncarnationNo(1)))));
    let json = serde_json::to_value(snapshot.root()).unwrap();
    let load = |pointer: &str, value: serde_json::Value| {
        let mut json = json.clone();
        *json.pointer_mut(pointer).unwrap() = value;
        Snapshot::load(&serde_json::from_value(json).unwrap(), snapshot.packs())
    };
    for (pointer, value) in [
        ("/assets/unit", 0.into()),
        ("/assets/unit", u32::MAX.into()),
        ("/assets/pack", 2.into()),
        ("/references", json["assets"].clone()),
        ("/references/unit", 1.into()),
        ("/packs/0/live", u32::MAX.into()),
        ("/packs/0/live", 0.into()),
        ("/digest", "0".repeat(64).into()),
    ] {
        assert!(
            matches!(load(pointer, value), Err(LoadError::Misfit(_))),
            "{pointer}"
        );
    }
}

#[test]
fn garbage_in_packs_stays_bounded() {
    let mut snapshot = Snapshot::empty();
    let wide = "x".repeat(10_000);
    for no in 1..200u32 {
        let put = (0..50).map(|at| {
            let to = if at == 49 { 0 } else { no };
            asset(at, to, &[])
                .edit()
                .addon(&crate::addons::Owner {
                    owner: wide.clone(),
                })
                .unwrap()
                .build()
                .unwrap()
        });
        snapshot = snapshot.edit(IncarnationNo(no), put.collect(), &[]);
        let all: usize = snapshot.packs().map(|pack| pack.bytes().len()).sum();
        assert!(
            all < (4 << 20),
            "{all} bytes are kept for {} assets of 10 kB",
            snapshot.len()
        );
    }
}
