//! The documents of a stream of YAML, separated as `kubectl` separates them: line by line, before the YAML is parsed.

use plugin_sdk::Problem;

/// The text of one document of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// The number of lines before the text.
    pub(super) lines: u32,
    /// Complete lines, each with a line feed.
    pub(super) text: String,
}

/// Splits a stream at its lines `---`. Parts without content are left out.
///
/// # Errors
/// The first place where `kubectl` would ignore a part of the text, or read it by other rules.
pub(super) fn split(text: &str) -> Result<Vec<Part>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut parts, mut part, mut state) = (Vec::new(), Part::default(), State::Before);
    for (number, line) in (1..).zip(text.lines()) {
        check_characters(number, line)?;
        if is_separator(line) {
            let next = Part {
                lines: number,
                text: String::new(),
            };
            parts.extend(
                Some(std::mem::replace(&mut part, next)).filter(|_| state != State::Before),
            );
            state = State::Before;
        } else {
            state = state.after(number, line)?;
            part.text.push_str(line);
            part.text.push('\n');
        }
    }
    parts.extend(Some(part).filter(|_| state != State::Before));
    Ok(parts)
}

/// How far a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There was no content yet.
    Before,
    Within,
    /// The document has ended with `...`.
    After,
}

impl State {
    fn after(self, number: u32, line: &str) -> Result<Self, Problem> {
        let wrong = |message: &str| Err(Problem::new(message).at("", number, 1));
        let is_blank = is_blank(line);
        match self {
            _ if line.starts_with("---") => wrong(
                "kubectl does not begin a document in a line with content; put `---` on a line of its own",
            ),
            Self::After if !is_blank => wrong(
                "kubectl ignores what comes after `...`; put `---` on a line before it, or remove it",
            ),
            Self::Before if line.starts_with('%') => {
                wrong("kubectl does not take YAML directives, and reads YAML 1.1; remove this line")
            }
            _ => match marked(line, "...") {
                Some(rest) if self::is_blank(rest) => Ok(Self::After),
                Some(_) => wrong(
                    "content follows `...` in the same line; put it on another line, after `---`",
                ),
                None if is_blank => Ok(self),
                None => Ok(Self::Within),
            },
        }
    }
}

/// Whether `kubectl` begins another document after this line.
fn is_separator(line: &str) -> bool {
    marked(line, "---").is_some_and(is_blank)
}

/// What follows a marker that a line begins with. `None`: the line does not begin with it.
fn marked<'l>(line: &'l str, marker: &str) -> Option<&'l str> {
    let rest = line.strip_prefix(marker)?;
    (rest.is_empty() || rest.starts_with([' ', '\t'])).then_some(rest)
}

/// Whether a text has only white space and a comment.
fn is_blank(text: &str) -> bool {
    let text = text.trim_start();
    text.is_empty() || text.starts_with('#')
}

/// Refuses characters that YAML 1.1 does not allow, or takes as line breaks, which other readers do not.
fn check_characters(number: u32, line: &str) -> Result<(), Problem> {
    let wrong = |c: &char| match c {
        '\t' | '\r' | ' '..='\u{7e}' => false,
        '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => true,
        c => *c < '\u{a0}',
    };
    match line.chars().position(|c| wrong(&c)) {
        None => Ok(()),
        Some(at) => {
            let column = u32::try_from(at + 1).unwrap_or(u32::MAX);
            let message = "a control character, or a line break of YAML 1.1 only; write it as an escape in double quotes, such as \"\\u0085\"";
            Err(Problem::new(message).at("", number, column))
        }
    }
}
