//! Texts of functions and people, cut to a length that every record has room for.

use plugin_sdk::By;

/// Maximum length in bytes of a text that a record holds.
const LENGTH: usize = 4 * 1024;
/// Maximum length in bytes of all texts of one kind in one record.
const ALL: usize = 256 * 1024;

/// The text, without what is too long: it says then how long it was. Control characters, which take six bytes each in a
/// record and can move the cursor of a terminal, are left out, but for the ends of lines.
pub(super) fn cut(text: impl Into<String>) -> String {
    cut_to(text.into(), LENGTH)
}

/// The text of one of `many` that are in one record.
pub(super) fn cut_one_of(many: usize, text: &str) -> String {
    cut_to(text.to_owned(), LENGTH.min(ALL / many.max(1)))
}

/// Who gives a word and why, each cut.
pub(super) fn cut_by(by: By) -> By {
    By::new(cut(by.who), cut(by.why))
}

fn cut_to(mut text: String, length: usize) -> String {
    text.retain(|it| !it.is_control() || it == '\n' || it == '\t');
    if text.len() > length {
        let all = text.len();
        text.truncate(text.floor_char_boundary(length));
        text.push_str(&format!("... (cut; it has {all} bytes)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_too_long_is_cut_at_a_character() {
        assert_eq!(cut("short\0 \u{1b}[2Jand\nplain"), "short [2Jand\nplain");
        let long = "\u{e9}".repeat(LENGTH);
        let cut = cut(format!("x{long}"));
        assert!(cut.len() < LENGTH + 50 && cut.ends_with("\u{e9}... (cut; it has 8193 bytes)"));
        let one = cut_one_of(1_000, &long);
        assert!(one.len() < 300, "{}", one.len());
        assert!(cut_by(By::new("ann", &long)).why.len() < LENGTH + 50);
    }
}
