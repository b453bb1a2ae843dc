//! Inputs of several parts: a first line, then parts of bytes, each with its length in four bytes before it.

/// Most parts.
const MOST: usize = 16;

/// An input of a line and parts.
pub(super) fn join(line: &[u8], parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = [line, b"\n"].concat();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

/// The first line of an input, and what follows it.
pub(super) fn line(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(input.len());
    (&input[..end], input.get(end + 1..).unwrap_or_default())
}

/// The first line of an input, and its parts. A length that is too great means the rest.
pub(super) fn split(input: &[u8]) -> (&[u8], Vec<&[u8]>) {
    let (line, mut rest) = line(input);
    let mut parts = Vec::new();
    while let (Some((length, bytes)), true) = (rest.split_first_chunk::<4>(), parts.len() < MOST) {
        let length = (u32::from_le_bytes(*length) as usize).min(bytes.len());
        let (part, others) = bytes.split_at(length);
        parts.push(part);
        rest = others;
    }
    (line, parts)
}
