//! The journal of a cell: every change of production and its cause, on disk before the change takes effect. It is
//! evidence for an auditor outside: the cell only writes it, and no code of production or of the control plane reads
//! it.

use std::{io, path::Path};

use serde::Serialize;

use crate::production::{
    api::{By, Change, Line},
    clock,
    files::Lines,
};

/// Appends lines to `journal.jsonl`. Later processes of the cell continue the same file.
#[derive(Debug)]
pub(super) struct Journal {
    lines: Lines,
    cell: String,
    instance: String,
}

impl Journal {
    /// Opens the journal in `dir`, or creates it.
    pub(super) fn open(dir: &Path, cell: &str, instance: &str) -> io::Result<Self> {
        Ok(Self {
            lines: Lines::open(&dir.join("journal.jsonl"))?,
            cell: cell.into(),
            instance: instance.into(),
        })
    }

    /// Appends one line. The line is on disk when this returns.
    pub(super) fn append(
        &mut self,
        resource: &str,
        change: Change,
        from: &impl Serialize,
        to: &impl Serialize,
        by: &By,
    ) -> io::Result<()> {
        self.lines.append(&Line {
            at_micros: clock::now_micros(),
            cell: self.cell.clone(),
            instance: self.instance.clone(),
            resource: resource.into(),
            change,
            from: serde_json::to_value(from)?,
            to: serde_json::to_value(to)?,
            by: by.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, io::Write};

    use super::*;

    #[test]
    fn journal_continues_after_restarts_and_torn_lines() {
        let dir = tempfile::tempdir().unwrap();
        let write = |n: u32| {
            let mut journal = Journal::open(dir.path(), "eu", "x").unwrap();
            journal
                .append("balancer", Change::Capacity, &n, &(n + 1), &By::Hand)
                .unwrap();
        };
        write(1);
        let path = dir.path().join("journal.jsonl");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"at_micros\":12").unwrap();
        write(2);
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<Option<Line>> = text
            .lines()
            .map(|line| serde_json::from_str(line).ok())
            .collect();
        let to = |line: &Option<Line>| line.as_ref().and_then(|line| line.to.as_u64());
        assert_eq!(
            lines.iter().map(to).collect::<Vec<_>>(),
            [Some(2), None, Some(3)]
        );
    }
}
