//! Names of objects as segments of asset ids. Kubernetes allows names that no asset id has, such as `alice@example.com`,
//! `read pods` or `-admin` for roles and their bindings, and longer ones.
//!
//! - A byte other than `A-Z a-z 0-9 . : -` is written as `_` and two digits: `alice_40example.com`, `read_20pods`. `_` itself
//!   is `_5F`.
//! - A segment that does not begin with a letter or digit gets `X_` in front, and its first byte is written in that way:
//!   `X__2Dadmin`.
//! - An id of more than 253 bytes is cut, and gets `_-` and 32 digits of the digest of the whole id. `_-` is in no other id.
//!
//! No two objects have the same id, and names that need none of this are as they are.

use prodspec_model::{AssetId, Digest};

/// In front of a segment that begins with an escape.
const MARK: &str = "X_";

/// Before the digest of an id that is cut.
const CUT: &str = "_-";

/// Number of digits of that digest.
const DIGITS: usize = 32;

/// A name without `/` as a segment of an id.
pub(crate) fn segment(name: &str) -> String {
    let mut segment = String::new();
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => segment.push(char::from(byte)),
            b'.' | b':' | b'-' if at > 0 => segment.push(char::from(byte)),
            _ => {
                segment += if at == 0 { MARK } else { "" };
                segment += &format!("_{byte:02X}");
            }
        }
    }
    segment
}

/// The name that a segment stands for. `None`: no name gives this segment.
pub(crate) fn name(segment: &str) -> Option<String> {
    let marked = segment.strip_prefix(MARK).filter(|it| it.starts_with('_'));
    let mut rest = marked.unwrap_or(segment);
    let mut bytes = Vec::new();
    while let Some(at) = rest.find('_') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let digits = rest.get(at + 1..at + 3)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[at + 3..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    let name = String::from_utf8(bytes).ok()?;
    (self::segment(&name) == segment).then_some(name)
}

/// An id that is cut if it is too long.
pub(crate) fn shortened(id: String) -> String {
    if id.len() <= AssetId::MAX_LEN {
        return id;
    }
    let digest = Digest::of(id.as_bytes()).to_string();
    let length = AssetId::MAX_LEN - CUT.len() - DIGITS;
    let head = id.get(..length).unwrap_or_default().trim_end_matches('/');
    format!("{head}{CUT}{}", &digest[..DIGITS])
}

/// Whether an id is cut.
pub(crate) fn is_cut(id: &str) -> bool {
    id.contains(CUT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn r43_kubernetes_names_are_segments_of_ids() {
        for (name, expected) in [
            ("web", "web"),
            ("system:web-1.x", "system:web-1.x"),
            ("alice@example.com", "alice_40example.com"),
            ("read pods", "read_20pods"),
            ("-admin", "X__2Dadmin"),
            ("a_b", "a_5Fb"),
            ("ä", "X__C3_A4"),
            ("X_2D", "X_5F2D"),
        ] {
            assert_eq!(segment(name), expected);
            assert_eq!(self::name(expected).as_deref(), Some(name));
        }
        for none in [
            "a_", "a_2", "a_GG", "a_2d", "a_41", "X_", "X__41", "_2D", "a_FF",
        ] {
            assert_eq!(name(none), None, "{none}");
        }
    }

    #[test]
    fn r43_ids_that_are_too_long_are_cut_and_differ() {
        let long = |end: &str| format!("k8s/Kind/{}{end}", "x".repeat(250));
        let [one, other] = ["a", "b"].map(|end| shortened(long(end)));
        assert_ne!(one, other);
        assert!(is_cut(&one) && AssetId::new(&one).is_ok(), "{one}");
        let folder = format!("{}/{}", "x".repeat(218), "y".repeat(99));
        assert!(AssetId::new(&shortened(folder)).is_ok());
        let short = "k8s/Kind/X__2Dadmin".to_owned();
        assert_eq!(shortened(short.clone()), short);
    }

    proptest! {
        #[test]
        fn r43_kubernetes_names_are_found_again_from_their_segments(name in "[-_.:@ aX0é\\PC]{1,12}") {
            prop_assume!(!name.contains('/'));
            let segment = segment(&name);
            prop_assert!(AssetId::new(&segment).is_ok(), "{}", segment);
            prop_assert!(!is_cut(&segment));
            prop_assert_eq!(super::name(&segment), Some(name));
        }
    }
}
