//! Output of untrusted text. Text from plugins, checks, people and sources is shown on a terminal without effects on
//! the terminal.
//!
//! A program passes each line of such text through [`shown`] at the place where it prints it, so it need not track
//! where the text came from. JSON passes through [`shown_json`].

use std::borrow::Cow;

/// Replaces every character that could control a terminal by a visible escape such as `\u{1b}`.
///
/// These are the control characters (C0, DEL and C1, so line ends and tabs too), the characters that change the
/// direction of text, and the line and paragraph separators. Other text is unchanged. Different texts stay different: a
/// backslash that would begin such an escape in the text itself is shown as `\u{5c}`.
///
/// ```
/// use plugin_sdk::text::shown;
/// assert_eq!(shown("paused: \x1b[2Jlunch\n"), r"paused: \u{1b}[2Jlunch\u{a}");
/// assert_eq!(shown(r"C:\users, 100 % größer"), r"C:\users, 100 % größer");
/// assert_eq!(shown(r"\u{1b}"), r"\u{5c}u{1b}");
/// ```
pub fn shown(text: &str) -> Cow<'_, str> {
    let begins = |rest: &str| rest.starts_with(r"\u{");
    escaped(
        text,
        |c, rest| drives(c) || begins(rest),
        |c| format!("\\u{{{:x}}}", u32::from(c)),
    )
}

/// Replaces every such character in JSON text by its JSON escape. The value of the JSON stays the same.
///
/// Line ends are kept, because in valid JSON they occur between values only.
pub fn shown_json(json: &str) -> Cow<'_, str> {
    escaped(
        json,
        |c, _| drives(c) && c != '\n',
        |c| format!("\\u{:04x}", u32::from(c)),
    )
}

/// Whether a terminal may act on this character instead of showing it.
fn drives(c: char) -> bool {
    let direction = ['\u{61c}', '\u{200e}', '\u{200f}'];
    c.is_control()
        || direction.contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{206f}').contains(&c)
}

/// Replaces each character for which `wanted` returns true. `wanted` gets the character and the text from it on.
fn escaped(
    text: &str,
    wanted: impl Fn(char, &str) -> bool,
    escape: impl Fn(char) -> String,
) -> Cow<'_, str> {
    let unwanted = |(at, c): (usize, char)| wanted(c, &text[at..]);
    let Some(first) = text.char_indices().position(unwanted) else {
        return Cow::Borrowed(text);
    };
    let mut shown = String::with_capacity(text.len() + 16);
    for (nth, (at, c)) in text.char_indices().enumerate() {
        match nth >= first && wanted(c, &text[at..]) {
            true => shown.push_str(&escape(c)),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text with many characters that could control a terminal, and many pieces that look like an escape.
    fn hostile() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            any::<String>(),
            any::<char>().prop_map(String::from),
            (0..0xa0u32).prop_map(|c| char::from_u32(c).unwrap().into()),
            (0x2000..0x2070u32).prop_map(|c| char::from_u32(c).unwrap().into()),
            prop::sample::select(&["\\", "\\u", "\\u{", "u{1b}", "{", "}", "1b", "\u{61c}"][..])
                .prop_map(String::from),
        ];
        prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
    }

    /// The original of the shown `text`.
    fn read_back(text: &str) -> String {
        let mut parts = text.split(r"\u{");
        let mut read = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (number, rest) = part.split_once('}').unwrap();
            let c = u32::from_str_radix(number, 16).unwrap();
            read.push(char::from_u32(c).unwrap());
            read.push_str(rest);
        }
        read
    }

    proptest! {
        #[test]
        fn r73_shown_text_contains_no_terminal_controls(text in hostile()) {
            let shown = shown(&text);
            // The expected ranges are written out here, independently of the tested function.
            let driving = |c: char| matches!(
                u32::from(c),
                0..=0x1f | 0x7f..=0x9f | 0x61c | 0x200e | 0x200f | 0x2028..=0x202e | 0x2066..=0x2069
            );
            prop_assert!(!shown.contains(driving), "{shown:?}");
            prop_assert_eq!(read_back(&shown), text);
        }

        #[test]
        fn plain_text_is_shown_as_it_is(text in r"(\PC|[C:]\\)*") {
            prop_assume!(!text.chars().any(drives) && !text.contains(r"\u{"));
            prop_assert_eq!(&*shown(&text), &*text);
        }

        #[test]
        fn r73_shown_json_keeps_its_value_and_contains_no_terminal_controls(texts in prop::collection::vec(hostile(), 0..4)) {
            let json = serde_json::to_string_pretty(&texts).unwrap();
            let shown = shown_json(&json);
            prop_assert!(!shown.contains(|c| drives(c) && c != '\n'), "{shown:?}");
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), texts);
        }
    }

    #[test]
    fn every_character_of_the_rule_is_escaped() {
        let rule = "\0\x07\x08\t\n\r\x1b\x7f\u{80}\u{85}\u{9b}\u{9f}\u{2028}\u{2029}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{61c}";
        for c in rule.chars() {
            assert_eq!(shown(&c.to_string()), format!("\\u{{{:x}}}", u32::from(c)));
        }
        assert!(matches!(shown("größer: 4 → 5 ✓"), Cow::Borrowed(_)));
    }
}
