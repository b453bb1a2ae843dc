//! What the program prints.

use std::{fmt::Write, path::Path};

use crate::{
    run::{Figures, Finding},
    target::Broken,
};

/// Most characters of an input that are printed.
const MOST: usize = 4_000;

/// One line for a target without a finding.
pub(crate) fn figures(name: &str, figures: Figures, seconds: f64) -> String {
    let Figures { inputs, classes } = figures;
    let each = inputs as f64 / seconds.max(0.001);
    format!(
        "{name}: {inputs} inputs, {each:.0} a second, {classes} classes of outcomes, no finding"
    )
}

/// A finding, with how to run it again. `file` has the input.
pub(crate) fn finding(name: &str, seed: u64, finding: &Finding, file: &Path) -> String {
    let Finding {
        input,
        broken: Broken { law, details },
        after,
    } = finding;
    let mut text =
        format!("{name}: FINDING with seed {seed} after {after} inputs: broken law: {law}\n");
    for line in cut(details).lines() {
        _ = writeln!(text, "    {line}");
    }
    _ = writeln!(
        text,
        "minimised input, {} bytes: b\"{}\"",
        input.len(),
        cut(&input.escape_ascii().to_string())
    );
    _ = write!(
        text,
        "again: cargo run --release -p fuzz -- {name} --input {}",
        file.display()
    );
    text
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST)]
}
