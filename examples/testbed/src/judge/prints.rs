//! Evidence from the journal of the press: which effects it has made, under which keys.

use std::{collections::BTreeSet, fs};

use control_plane::workflow::EffectKey;

use super::broken::{Held, broken, ensure, until};
use crate::{
    place::Place,
    production::press::{
        api::{Faults, Line, What, journal},
        client::Press,
    },
    program::this_program,
};

/// The number of lines of the press's journal at one point in time.
#[derive(Debug, Clone, Copy)]
pub struct PressMark(usize);

/// Starts the press if it is not running, and tells it how badly it works. Returns a mark of its journal.
///
/// # Errors
/// When it cannot be started.
pub async fn press(place: &Place, faults: Faults) -> Held<PressMark> {
    let dir = place.press();
    let press = Press::ensure(&this_program()?, &dir).await?;
    press.set_faults(faults).await?;
    Ok(PressMark(journal(&dir).len()))
}

/// Returns the lines of the journal since `mark` whose keys begin with `of`, such as the id of an execution.
pub fn lines(place: &Place, mark: PressMark, of: &str) -> Vec<Line> {
    let lines = journal(&place.press()).into_iter().skip(mark.0);
    lines.filter(|line| line.key.starts_with(of)).collect()
}

/// Returns the lines since `mark` about prints whose keys begin with `of`, in order of time.
///
/// # Errors
/// When a key was printed twice.
pub fn printed(place: &Place, mark: PressMark, of: &str) -> Held<Vec<Line>> {
    let mut lines = lines(place, mark, of);
    lines.retain(|line| matches!(line.what, What::Printed { .. }));
    let mut known = BTreeSet::new();
    match lines.iter().find(|line| !known.insert(&line.key)) {
        Some(line) => broken(format_args!("printed twice: {line:?}")),
        None => Ok(lines),
    }
}

/// Expects that since `mark` exactly these steps of the execution `id` were printed, each once and under the key of its
/// run, such as `posters/1`.
///
/// # Errors
/// When others were printed too, or one was not.
pub fn printed_once_each(place: &Place, mark: PressMark, id: &str, steps: &[&str]) -> Held {
    let lines = printed(place, mark, &format!("{id}/"))?.into_iter();
    let mut keys: Vec<String> = lines.map(|line| run(&line.key)).collect();
    keys.sort();
    let wanted = steps.iter().map(|step| format!("{id}/{step}"));
    let mut wanted: Vec<String> = wanted.collect();
    wanted.sort();
    ensure(keys == wanted, || {
        format!("printed: {keys:?}, expected: {wanted:?}")
    })
}

/// Returns a key without its random number: the execution, the step and the run.
fn run(key: &str) -> String {
    match key.parse::<EffectKey>() {
        Ok(key) => EffectKey::new(key.execution, key.step, key.run).to_string(),
        Err(_) => key.to_owned(),
    }
}

/// Returns the posters of the execution `id` that are there, by the files of the press.
///
/// # Errors
/// When they cannot be listed.
pub fn posters(place: &Place, id: &str) -> Held<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(place.press().join("posters"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_prefix(&format!("{id} ")).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Waits until the press was called for the step of the execution `id`.
///
/// # Errors
/// When it is not in time.
pub async fn called(place: &Place, mark: PressMark, id: &str, step: &str) -> Held {
    let key = format!("{id}/{step}");
    until("the press is called", async || {
        ensure(!lines(place, mark, &key).is_empty(), || {
            format!("no call of {key}")
        })
    })
    .await
}

/// Returns the number of calls since `mark` for the execution `id`. It is greater than that of keys if some were repeated.
pub fn calls(place: &Place, mark: PressMark, id: &str) -> usize {
    let lines = lines(place, mark, &format!("{id}/"));
    let called = lines.iter().filter(|line| line.what == What::Called);
    called.count()
}

/// Returns the keys of the execution `id` that were called for the first time after `when`, in microseconds since 1970.
pub fn first_called_after(place: &Place, mark: PressMark, id: &str, when: u64) -> Vec<String> {
    let mut known = BTreeSet::new();
    let mut late = Vec::new();
    for line in lines(place, mark, &format!("{id}/")) {
        if known.insert(line.key.clone()) && line.at_micros > when {
            late.push(line.key);
        }
    }
    late
}
