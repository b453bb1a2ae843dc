//! Mutations of inputs: of single bytes, of the tokens and lines of texts, and splices of two inputs.

use crate::random::Random;

/// Longest input, in bytes. What grows beyond it is cut.
pub(crate) const LONGEST: usize = 64 << 10;

/// Numbers near which parsers go wrong.
const NUMBERS: [&str; 24] = [
    "0",
    "-0",
    "1",
    "-1",
    "00",
    "0644",
    "0x7f",
    "0o17",
    "1e308",
    "1e309",
    "-1e-400",
    "0.1",
    ".5",
    "5.",
    "1_000",
    "127",
    "256",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
];

/// Bytes and characters that have a meaning in one of the formats, or are rare.
const MARKS: [&str; 44] = [
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\r",
    ":",
    ": ",
    ", ",
    "- ",
    "? ",
    "#",
    " # ",
    "&a ",
    "*a",
    "!",
    "!!str ",
    "|\n",
    ">-\n",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\ud800",
    "---\n",
    "...\n",
    "<<: *a\n",
    "~",
    "null",
    "true",
    "=",
    ".",
    "/",
    "@",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "\0",
    "é",
    "\u{1f600}",
];

/// Changes `input` in one to five places. `other` is another input of the corpus, `words` are the target's own.
pub(crate) fn mutate(input: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut Random) {
    for _ in 0..=random.below(5) {
        once(input, other, words, random);
        input.truncate(LONGEST);
    }
}

fn once(input: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut Random) {
    match random.below(14) {
        0 => flip(input, random),
        1 => remove(input, random),
        2 => repeat(input, random),
        3 => splice(input, other, random),
        4 => insert(input, other, random),
        5 | 6 => put(input, NUMBERS.as_slice(), random),
        7 | 8 => put(input, MARKS.as_slice(), random),
        9 => put(input, words, random),
        10 => swap_tokens(input, random),
        11 => move_line(input, random),
        12 => indent(input, random),
        _ => number(input, random),
    }
}

fn flip(input: &mut [u8], random: &mut Random) {
    let at = random.below(input.len());
    if let Some(byte) = input.get_mut(at) {
        *byte = match random.below(3) {
            0 => *byte ^ (1 << random.below(8)),
            1 => [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            _ => random.bits() as u8,
        };
    }
}

fn remove(input: &mut Vec<u8>, random: &mut Random) {
    let (start, end) = random.part(input.len());
    input.drain(start..end);
}

/// Repeats a part, now and then very often: deep nesting, long texts, many keys.
fn repeat(input: &mut Vec<u8>, random: &mut Random) {
    let (start, end) = random.part(input.len());
    let times = match random.below(16) {
        0 => 1 + random.below(2000),
        _ => 1 + random.below(3),
    };
    let most = LONGEST / (end - start).max(1);
    let copies = input[start..end].repeat(times.min(most));
    input.splice(end..end, copies);
}

/// Goes on with the end of another input.
fn splice(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    input.truncate(random.below(input.len() + 1));
    input.extend_from_slice(&other[random.below(other.len() + 1)..]);
}

fn insert(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let (start, end) = random.part(other.len());
    let at = random.below(input.len() + 1);
    input.splice(at..at, other[start..end].iter().copied());
}

/// Puts a word at a place, or instead of a token.
fn put(input: &mut Vec<u8>, words: &[&str], random: &mut Random) {
    let Some(word) = random.pick(words) else {
        return;
    };
    let (start, end) = match random.below(2) {
        0 => token(input, random),
        _ => {
            let at = random.below(input.len() + 1);
            (at, at)
        }
    };
    input.splice(start..end, word.bytes());
}

/// The start and the end of a token: bytes without white space and brackets around them.
fn token(input: &[u8], random: &mut Random) -> (usize, usize) {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"{}[],:\"'".contains(byte);
    let at = random.below(input.len() + 1);
    let start = input[..at].iter().rposition(ends).map_or(0, |at| at + 1);
    let end = input[at..]
        .iter()
        .position(ends)
        .map_or(input.len(), |len| at + len);
    (start, end)
}

fn swap_tokens(input: &mut Vec<u8>, random: &mut Random) {
    let (first, second) = (token(input, random), token(input, random));
    let (first, second) = (first.min(second), first.max(second));
    if first.1 <= second.0 {
        let (early, late) = (
            input[first.0..first.1].to_vec(),
            input[second.0..second.1].to_vec(),
        );
        input.splice(second.0..second.1, early);
        input.splice(first.0..first.1, late);
    }
}

/// The start of a line, and that of the next one.
fn line(input: &[u8], random: &mut Random) -> (usize, usize) {
    let at = random.below(input.len() + 1);
    let is_end = |byte: &u8| *byte == b'\n';
    let start = input[..at].iter().rposition(is_end).map_or(0, |at| at + 1);
    let end = input[at..]
        .iter()
        .position(is_end)
        .map_or(input.len(), |len| at + len + 1);
    (start, end)
}

/// Moves a line to the start of another one, or copies it there.
fn move_line(input: &mut Vec<u8>, random: &mut Random) {
    let (start, end) = line(input, random);
    let moved = input[start..end].to_vec();
    if random.below(2) == 0 {
        input.drain(start..end);
    }
    let (at, _) = line(input, random);
    input.splice(at..at, moved);
}

fn indent(input: &mut Vec<u8>, random: &mut Random) {
    let (start, end) = line(input, random);
    match random.below(3) {
        0 if start < end && input[start] == b' ' => drop(input.drain(start..=start)),
        1 => input.insert(start, b'\t'),
        _ => drop(input.splice(start..start, [b' '; 2])),
    }
}

/// Writes a boundary number as two, four or eight bytes, as the lengths in binary formats are.
fn number(input: &mut [u8], random: &mut Random) {
    let bytes = [
        0,
        1,
        51,
        52,
        255,
        256,
        u64::from(u32::MAX),
        1 << 31,
        u64::MAX,
    ][random.below(9)]
    .to_le_bytes();
    let len = [2, 4, 8][random.below(3)];
    let at = random.below(input.len() + 1);
    for (place, byte) in input[at..].iter_mut().zip(&bytes[..len]) {
        *place = *byte;
    }
}
