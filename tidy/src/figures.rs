//! Ratchets: figures of today's code that may only fall. They are stored in [`FILE`], one per line.
//!
//! A size limit with a list of exceptions decays: an exception grows without a failure. So each exception has its exact
//! figure. A higher figure and a new one fail; a lower one fails too, until the file has it.

use std::collections::BTreeMap;

/// Path of the stored figures.
pub const FILE: &str = "tidy/figures.toml";

/// Command that rewrites [`FILE`] with the present figures. The difference then shows each figure that rose.
pub const REWRITE: &str = "FIGURES=write cargo test -p tidy --test figures";

/// Figures by section and name, such as `fields` and `plugin-sdk::PushRequest`.
pub type Figures = BTreeMap<String, BTreeMap<String, usize>>;

/// One section of [`FILE`].
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Name of the section in the file.
    pub name: &'static str,
    /// Meaning of the figures, as the comment above the section.
    pub unit: &'static str,
    /// Figures up to this limit are not listed.
    pub limit: usize,
    /// Advice for the author of a figure that rose.
    pub advice: &'static str,
}

/// Compares the present figures with `text`, the content of [`FILE`]. Each problem has the exact line to put in.
pub fn check(sections: &[Section], present: &Figures, text: &str) -> Vec<String> {
    let stored: Figures = match toml::from_str(text) {
        Ok(stored) => stored,
        Err(error) => {
            return vec![format!(
                "{FILE}: cannot be parsed: {}; rewrite it: {REWRITE}",
                error.message()
            )];
        }
    };
    let none = BTreeMap::new();
    let mut problems = Vec::new();
    for section in sections {
        let [present, stored] =
            [present, &stored].map(|figures| figures.get(section.name).unwrap_or(&none));
        compare(section, present, stored, &mut problems);
    }
    if problems.is_empty() && text != render(sections, present) {
        problems.push(format!("{FILE}: is not sorted; rewrite it: {REWRITE}"));
    } else if !problems.is_empty() {
        problems.push(format!("all figures of {FILE} at once: {REWRITE}"));
    }
    problems
}

fn compare(
    section: &Section,
    present: &BTreeMap<String, usize>,
    stored: &BTreeMap<String, usize>,
    problems: &mut Vec<String>,
) {
    let Section {
        name,
        limit,
        advice,
        ..
    } = section;
    for (key, &now) in present {
        let line = line(key, now);
        let problem = match stored.get(key).copied() {
            Some(before) if now == before => continue,
            Some(before) if now < before => format!("lower the figure to {now}: `{line}`"),
            Some(before) => format!(
                "`{key}` rose from {before} to {now}: {advice}; only with a reason in the commit: `{line}`"
            ),
            None => format!(
                "`{key}` has {now}, {limit} are allowed: {advice}; only with a reason in the commit: `{line}`"
            ),
        };
        problems.push(format!("{FILE}, [{name}]: {problem}"));
    }
    for (key, &before) in stored {
        if !present.contains_key(key) {
            let line = line(key, before);
            problems.push(format!(
                "{FILE}, [{name}]: within the limit now; remove the line `{line}`"
            ));
        }
    }
}

/// The content of [`FILE`] with these figures, sorted.
pub fn render(sections: &[Section], figures: &Figures) -> String {
    let mut text = format!("# Figures that may only fall. To rewrite all of them:\n# {REWRITE}\n");
    for section in sections {
        let Section {
            name, unit, limit, ..
        } = section;
        text += &match limit {
            0 => format!("\n# {unit}.\n[{name}]\n"),
            _ => format!("\n# {unit}; listed above {limit}.\n[{name}]\n"),
        };
        for (key, figure) in figures.get(section.name).into_iter().flatten() {
            text += &line(key, *figure);
            text.push('\n');
        }
    }
    text
}

fn line(key: &str, figure: usize) -> String {
    format!("\"{key}\" = {figure}")
}

#[cfg(test)]
mod tests;
