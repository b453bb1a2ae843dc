//! Lines of a text, and splices that replace ranges of its bytes.

use std::ops::Range;

use super::tree::File;

/// A range of bytes and the text that replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Splice {
    pub(super) at: Range<usize>,
    pub(super) text: String,
}

impl Splice {
    pub(super) fn replace(at: Range<usize>, text: impl Into<String>) -> Self {
        Self {
            at,
            text: text.into(),
        }
    }

    pub(super) fn insert(at: usize, text: impl Into<String>) -> Self {
        Self::replace(at..at, text)
    }

    pub(super) fn delete(at: Range<usize>) -> Self {
        Self::replace(at, "")
    }

    /// Whether the ranges overlap, or an insertion is where the other begins or ends.
    pub(super) fn touches(&self, other: &Self) -> bool {
        match self.at.is_empty() || other.at.is_empty() {
            true => self.at.start <= other.at.end && other.at.start <= self.at.end,
            false => self.at.start < other.at.end && other.at.start < self.at.end,
        }
    }
}

/// The text after all splices, made only of their texts and the bytes between them. `None`: a range is not in the
/// text, or two splices overlap.
pub(super) fn splice(text: &str, mut splices: Vec<Splice>) -> Option<String> {
    splices.sort_by_key(|splice| (splice.at.start, splice.at.end));
    let (mut spliced, mut done) = (String::with_capacity(text.len()), 0);
    for Splice { at, text: new } in splices {
        if at.end < at.start {
            return None;
        }
        spliced.push_str(text.get(done..at.start)?);
        spliced.push_str(&new);
        done = at.end;
    }
    spliced.push_str(text.get(done..)?);
    Some(spliced)
}

/// The 1-based line of a byte.
pub(super) fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// A text with its comments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<'t> {
    pub(super) text: &'t str,
    pub(super) comments: &'t [Range<usize>],
}

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t str, file: &'t File) -> Self {
        Self {
            text,
            comments: &file.comments,
        }
    }

    /// The text of a range; empty if it is not one.
    pub(super) fn slice(&self, at: Range<usize>) -> &'t str {
        self.text.get(at).unwrap_or_default()
    }

    /// The first byte of the line, after a byte order mark.
    pub(super) fn start(&self, at: usize) -> usize {
        match self.slice(0..at).rfind('\n') {
            Some(end) => end + 1,
            None if self.text.starts_with('\u{feff}') => 3.min(at),
            None => 0,
        }
    }

    /// The end of the line, before its line break.
    pub(super) fn end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        match rest.find('\n') {
            Some(0) => at,
            Some(length) if rest.as_bytes()[length - 1] == b'\r' => at + length - 1,
            Some(length) => at + length,
            None => self.text.len(),
        }
    }

    /// The first byte of the next line, or the end of the text.
    pub(super) fn next(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        rest.find('\n')
            .map_or(self.text.len(), |length| at + length + 1)
    }

    /// The number of characters before a byte in its line.
    pub(super) fn column(&self, at: usize) -> usize {
        self.slice(self.start(at)..at).chars().count()
    }

    /// Whether only spaces are before a byte in its line.
    pub(super) fn begins(&self, at: usize) -> bool {
        self.slice(self.start(at)..at)
            .bytes()
            .all(|byte| byte == b' ')
    }

    /// Whether only white space and a comment follow a byte in its line.
    pub(super) fn finishes(&self, at: usize) -> bool {
        let rest = self.slice(at..self.end(at));
        let used = rest.len() - rest.trim_start().len();
        used == rest.len() || self.comment(at + used).is_some()
    }

    /// Whether a comment follows a byte in its line.
    pub(super) fn remarked(&self, at: usize) -> bool {
        let end = self.end(at);
        let nth = self.comments.partition_point(|it| it.start < at);
        self.comments.get(nth).is_some_and(|it| it.start < end)
    }

    /// The end of the comment that begins at a byte.
    fn comment(&self, at: usize) -> Option<usize> {
        let nth = self.comments.partition_point(|it| it.start < at);
        let comment = self.comments.get(nth)?;
        (comment.start == at && comment.end > at).then_some(comment.end)
    }

    /// The whole lines of a range; at the end of a text without a last line break, with the line break before.
    pub(super) fn own(&self, at: &Range<usize>) -> Option<Range<usize>> {
        let (start, end) = (self.start(at.start), self.next(at.end));
        if !self.finishes(at.end) {
            return None;
        }
        let last = self.end(at.end) == end;
        match last && self.slice(0..start).ends_with('\n') {
            true => Some(self.end(self.start(start - 1))..end),
            false => Some(start..end),
        }
    }

    /// The first byte from `at` that is neither white space nor within a comment.
    pub(super) fn skip(&self, mut at: usize) -> usize {
        loop {
            let rest = self.text.get(at..).unwrap_or_default();
            at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            match self.comment(at) {
                Some(end) => at = end,
                None => return at,
            }
        }
    }

    /// Whether the text has `byte` at `at`.
    pub(super) fn has(&self, at: usize, byte: u8) -> bool {
        self.text.as_bytes().get(at) == Some(&byte)
    }

    /// The line break of the text: that of its first line.
    pub(super) fn line_break(&self) -> &'static str {
        match self.text.find('\n') {
            Some(at) if self.text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        }
    }
}
