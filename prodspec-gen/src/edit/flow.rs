//! Splices within brackets and braces, for YAML and JSON: adds and removes entries and items.

use super::{
    text::{Lines, Splice},
    tree::{Collection, Node, Slot},
};

/// Adds an entry or item with the text `new` at the end of a collection.
pub(super) fn add(lines: Lines<'_>, node: &Node, of: &Collection, new: &str) -> Vec<Splice> {
    let Some(last) = of.slots.last() else {
        let inside = node.at.start + 1..node.at.end.saturating_sub(1);
        let blank = lines.slice(inside.clone()).bytes().all(|byte| byte == b' ');
        return match blank {
            true => vec![Splice::replace(inside, new)],
            false => vec![Splice::insert(inside.start, new)],
        };
    };
    let end = end(last);
    let own_line = lines.start(last.start) > node.at.start && lines.begins(last.start);
    let closes = lines.end(end) < node.at.end && lines.slice(end..lines.end(end)).trim() == "";
    let separator = match own_line && closes {
        true => {
            let indent = " ".repeat(lines.column(last.start));
            format!(",{}{indent}", lines.line_break())
        }
        false if compact(lines, of) => ",".to_owned(),
        false => ", ".to_owned(),
    };
    vec![Splice::insert(end, format!("{separator}{new}"))]
}

/// Whether no white space follows the commas.
fn compact(lines: Lines<'_>, of: &Collection) -> bool {
    of.slots
        .windows(2)
        .any(|pair| end(&pair[0]) + 1 == pair[1].start && lines.has(end(&pair[0]), b','))
}

/// Removes the entry or item number `nth`. Comments outside its lines stay.
pub(super) fn remove(lines: Lines<'_>, of: &Collection, nth: usize) -> Vec<Splice> {
    let slot = &of.slots[nth];
    let (start, end) = (slot.start, end(slot));
    let comma = lines.skip(end);
    let comma = lines.has(comma, b',').then_some(comma + 1);
    let is_last = nth + 1 == of.slots.len();
    let before = nth
        .checked_sub(1)
        .map(|before| self::end(&of.slots[before]));
    if let Some(before) = before.filter(|before| is_last && !remarked(lines, *before, start)) {
        return vec![Splice::delete(before..end)];
    }
    let end = comma.unwrap_or(end);
    if lines.begins(start) && lines.finishes(end) && lines.next(end) > lines.end(end) {
        return vec![Splice::delete(lines.start(start)..lines.next(end))];
    }
    let next = of.slots.get(nth + 1).map(|next| next.start);
    match next.filter(|next| !remarked(lines, end, *next)) {
        Some(next) => vec![Splice::delete(start..next)],
        None => vec![Splice::delete(start..end)],
    }
}

/// The end of an entry or item, without its comma.
fn end(slot: &Slot) -> usize {
    slot.value.at.end
}

/// Whether a comment begins between two bytes.
fn remarked(lines: Lines<'_>, from: usize, to: usize) -> bool {
    let nth = lines.comments.partition_point(|it| it.start < from);
    lines.comments.get(nth).is_some_and(|it| it.start < to)
}
