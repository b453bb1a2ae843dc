//! The statement of a commit: the batch as the parameters of the function `commit_batch`.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::{Batch, CommitError, Expect, Key, KeyRange, Version, Write, limit};
use sqlx::{PgConnection, Row};

use crate::session::Known;

/// Runs the function that commits. One row: the version, or the position of an expectation that does not hold and the
/// version found there.
pub(crate) const COMMIT: &str = "select given, refused, actual, earlier from \
    commit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";

/// Maximum length of the payload of a notification, in bytes. The server allows a little more.
const PAYLOAD: usize = 4096;

/// The payload of a notification for all topics.
pub(crate) const ALL: &str = "";

/// The parameters of one commit. Keys are sorted, so that commits lock rows in the same order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Statement<'a> {
    id: [u8; 16],
    above: i64,
    expected: Vec<&'a [u8]>,
    versions: Vec<i64>,
    written: Vec<&'a [u8]>,
    unwritten: Vec<&'a [u8]>,
    absent: Vec<&'a [u8]>,
    starts: Vec<&'a [u8]>,
    ends: Vec<Option<&'a [u8]>>,
    deleted: Vec<&'a [u8]>,
    put: Vec<&'a [u8]>,
    contents: Vec<&'a [u8]>,
    topics: Vec<&'a str>,
}

impl<'a> Statement<'a> {
    pub(crate) fn of(batch: &'a Batch) -> Self {
        let mut statement = Self {
            id: batch.id.0.to_be_bytes(),
            above: batch.above.0.min(limit::VERSION).cast_signed(),
            ..Self::default()
        };
        statement.write(&batch.writes);
        statement.expect(&batch.expect);
        let topics = batch.announce.iter().map(|topic| payload(topic.as_str()));
        statement.topics = BTreeSet::from_iter(topics).into_iter().collect();
        statement
    }

    /// Turns writes in an order into sets: ranges and keys to delete, then keys to put.
    fn write(&mut self, writes: &'a [Write]) {
        let mut last: BTreeMap<&Key, Option<&[u8]>> = BTreeMap::new();
        for write in writes {
            match write {
                Write::Put(key, value) => drop(last.insert(key, Some(value))),
                Write::Delete(key) => drop(last.insert(key, None)),
                Write::DeleteRange(range) if range.is_empty() => {}
                Write::DeleteRange(range) => {
                    last.retain(|key, _| !range.contains(key));
                    self.starts.push(bytes(&range.start));
                    self.ends.push(range.end.as_ref().map(bytes));
                }
            }
        }
        for (key, value) in last {
            match value {
                Some(value) => {
                    self.put.push(bytes(key));
                    self.contents.push(value);
                }
                None => self.deleted.push(bytes(key)),
            }
        }
    }

    fn expect(&mut self, expect: &'a [(Key, Expect)]) {
        for (key, expect) in expect {
            self.expected.push(bytes(key));
            self.versions.push(match expect {
                Expect::Absent => 0,
                // No row has this version.
                Expect::At(Version(0)) => -1,
                Expect::At(Version(version)) => i64::try_from(*version).unwrap_or(-1),
            });
        }
        let absent = expect
            .iter()
            .filter(|(_, expect)| *expect == Expect::Absent);
        let absent: BTreeSet<&[u8]> = absent.map(|(key, _)| bytes(key)).collect();
        let put: BTreeSet<&[u8]> = self.put.iter().copied().collect();
        self.absent = absent.difference(&put).copied().collect();
        let expected: BTreeSet<&[u8]> = self.expected.iter().copied().collect();
        let (written, unwritten) = expected.into_iter().partition(|key| self.writes(&put, key));
        (self.written, self.unwritten) = (written, unwritten);
    }

    fn writes(&self, put: &BTreeSet<&[u8]>, key: &[u8]) -> bool {
        let mut ranges = self.starts.iter().zip(&self.ends);
        put.contains(key)
            || self.deleted.binary_search(&key).is_ok()
            || ranges.any(|(start, end)| *start <= key && end.is_none_or(|end| key < end))
    }

    /// Runs the statement, in one round trip.
    pub(crate) async fn run(
        &self,
        connection: &mut PgConnection,
        known: &Known,
        channel: &str,
    ) -> sqlx::Result<Answer> {
        let proof = known.marks.proof();
        let row = sqlx::query(COMMIT)
            .bind(&self.id[..])
            .bind(self.above)
            .bind(known.identity())
            .bind(&proof.ids)
            .bind(&proof.versions)
            .bind(&self.expected)
            .bind(&self.versions)
            .bind(&self.written)
            .bind(&self.unwritten)
            .bind(&self.absent)
            .bind(&self.starts)
            .bind(&self.ends)
            .bind(&self.deleted)
            .bind(&self.put)
            .bind(&self.contents)
            .bind(channel)
            .bind(&self.topics)
            .fetch_one(connection)
            .await?;
        Ok(Answer {
            given: row.try_get(0)?,
            refused: row.try_get(1)?,
            actual: row.try_get(2)?,
            earlier: row.try_get(3)?,
        })
    }
}

/// The row with which the function answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    given: Option<i64>,
    refused: Option<i64>,
    actual: Option<i64>,
    /// Whether an earlier submission made the commit.
    pub(crate) earlier: bool,
}

impl Answer {
    /// What the answer means for the batch.
    pub(crate) fn result(self, batch: &Batch) -> Result<Version, CommitError> {
        let version = |number: i64| Version(number.cast_unsigned());
        let nth = self.refused.and_then(|nth| usize::try_from(nth - 1).ok());
        match (self.given, nth.and_then(|nth| batch.expect.get(nth))) {
            (_, Some((key, _))) => Err(CommitError::Conflict {
                key: key.clone(),
                found: self.actual.map(version),
            }),
            (Some(given), None) => Ok(version(given)),
            (None, None) => Err(CommitError::unknown(
                "the answer of the server has no version",
            )),
        }
    }
}

/// The range of a scan as parameters.
pub(crate) fn bounds(range: &KeyRange) -> (&[u8], Option<&[u8]>) {
    (bytes(&range.start), range.end.as_ref().map(bytes))
}

/// The payload that announces a topic. Topics that no payload can hold announce all topics.
fn payload(topic: &str) -> &str {
    let fits = topic.len() <= PAYLOAD && topic.is_ascii() && !topic.contains('\0');
    if fits { topic } else { ALL }
}

fn bytes(key: &Key) -> &[u8] {
    key.as_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(keys: &[&'a [u8]]) -> Vec<&'a str> {
        keys.iter()
            .map(|key| std::str::from_utf8(key).unwrap())
            .collect()
    }

    #[test]
    fn only_the_last_write_of_a_key_is_made() {
        let batch = Batch::new()
            .put("b", "1")
            .put("a", "1")
            .put("a", "2")
            .put("gone", "1")
            .delete("gone")
            .put("r/1", "1")
            .delete("r/2")
            .delete_range(KeyRange::prefix("r/"))
            .delete_range(KeyRange::between("z", "y"))
            .put("r/3", "1");
        let statement = Statement::of(&batch);
        assert_eq!(texts(&statement.put), ["a", "b", "r/3"]);
        assert_eq!(statement.contents, [&b"2"[..], b"1", b"1"]);
        assert_eq!(texts(&statement.deleted), ["gone"]);
        assert_eq!(texts(&statement.starts), ["r/"]);
    }

    #[test]
    fn expected_keys_are_locked_as_they_are_written() {
        let batch = Batch::new()
            .expect_at("put", Version(3))
            .expect_at("owner", Version(2))
            .expect_absent("new")
            .expect_absent("none")
            .expect_at("r/1", Version(0))
            .put("put", "1")
            .put("new", "1")
            .delete_range(KeyRange::prefix("r/"));
        let statement = Statement::of(&batch);
        assert_eq!(statement.versions, [3, 2, 0, 0, -1]);
        assert_eq!(texts(&statement.written), ["new", "put", "r/1"]);
        assert_eq!(texts(&statement.unwritten), ["none", "owner"]);
        assert_eq!(texts(&statement.absent), ["none"]);
    }

    #[test]
    fn topics_that_no_payload_holds_announce_all() {
        for topic in ["", "é", "a\0b", &"a".repeat(PAYLOAD + 1)] {
            assert_eq!(payload(topic), ALL);
        }
        assert_eq!(payload("head/shop"), "head/shop");
    }
}
