//! Reads: each is one statement, which sees one snapshot.

use std::collections::BTreeMap;

use bytes::Bytes;
use control_plane_store::{Error, Key, KeyRange, Page, Version, Versioned, limit};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::{session::Known, statement::bounds};

/// The row without a key with which every read ends. R50: it is there only if the statement sees all that this process
/// was acknowledged.
macro_rules! proven {
    ($known:literal, $marks:literal, $numbers:literal, $read:expr) => {
        concat!(
            "(",
            $read,
            ") union all select null, null, null where prove(",
            $known,
            ", ",
            $marks,
            ", ",
            $numbers,
            ")"
        )
    };
}

/// Reads rows by their keys.
pub(crate) const GET: &str = proven!(
    "$2",
    "$3",
    "$4",
    "select key, version, value from rows where key = any($1)"
);

/// Reads the rows of a page. The last one is the one with which the page is full.
macro_rules! scan {
    ($range:literal) => {
        proven!(
            "$4",
            "$5",
            "$6",
            concat!(
                "select key, version, value from (select key, version, value, \
                 sum(octet_length(key) + octet_length(value)) over \
                 (order by key rows between unbounded preceding and 1 preceding) as before \
                 from (select key, version, value from rows where ",
                $range,
                " order by key limit $2) r) r where before is null or before < $3 order by key"
            )
        )
    };
}
const BOUNDED: &str = scan!("key >= $1 and key < $7");
const OPEN: &str = scan!("key >= $1");

/// Maximum number of rows of a page, whatever the caller allows. The server looks at so many to find the end of a page.
const ROWS: usize = 1 << 14;

/// Removes all but the newest batches, as many as a store has to remember, and those of the last ten minutes. Processes commit
/// side by side: the batch of one may be submitted again after thousands of the others.
/// The greatest version of those that are gone is kept: a process that was acknowledged it does not take it for lost.
const PRUNE: &str = "with gone as (delete from batches where at < now() - interval '10 min' \
    and version <= (select version from batches order by version desc offset $1 limit 1) returning version) \
    update about set forgotten = greatest(forgotten, (select max(version) from gone)) \
    where only_row and exists (select 1 from gone)";

/// Why a read failed.
#[derive(Debug)]
pub(crate) enum Failed {
    Statement(sqlx::Error),
    /// A row is not one that a store writes.
    Row(Error),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Statement(error)
    }
}

/// Reads the values of `keys`, in their order.
pub(crate) async fn get(
    connection: &mut PgConnection,
    known: &Known,
    keys: &[Key],
) -> Result<Vec<Option<Versioned>>, Failed> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let wanted: Vec<&[u8]> = keys.iter().map(|key| key.as_str().as_bytes()).collect();
    let proof = known.marks.proof();
    let select = sqlx::query(GET).bind(wanted).bind(known.identity());
    let select = select.bind(&proof.ids).bind(&proof.versions);
    let rows = proven(select.fetch_all(connection).await?)?;
    let rows = rows.iter().map(decode);
    let rows = rows.collect::<Result<BTreeMap<Key, Versioned>, _>>()?;
    Ok(keys.iter().map(|key| rows.get(key).cloned()).collect())
}

/// Reads the first page of `range`.
pub(crate) async fn scan(
    connection: &mut PgConnection,
    known: &Known,
    range: &KeyRange,
    limit: usize,
) -> Result<Page, Failed> {
    if range.is_empty() {
        return Ok(Page::default());
    }
    let limit = limit.clamp(1, ROWS);
    let (start, end) = bounds(range);
    let proof = known.marks.proof();
    let select = sqlx::query(if end.is_some() { BOUNDED } else { OPEN })
        .bind(start)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(i64::try_from(limit::PAGE).unwrap_or(i64::MAX))
        .bind(known.identity())
        .bind(&proof.ids)
        .bind(&proof.versions);
    let select = match end {
        Some(end) => select.bind(end),
        None => select,
    };
    let rows = proven(select.fetch_all(connection).await?)?;
    let mut rows = rows.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    // The order of a part of a union is that of its rows in practice, and no promise.
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Page::collect(range, limit, rows))
}

/// Forgets batches that are old enough.
pub(crate) async fn prune(connection: &mut PgConnection) -> Result<(), Failed> {
    let kept = i64::try_from(limit::REMEMBERED_BATCHES).unwrap_or(i64::MAX);
    sqlx::query(PRUNE).bind(kept).execute(connection).await?;
    Ok(())
}

/// Takes the proof from the rows of an answer.
fn proven(mut rows: Vec<PgRow>) -> sqlx::Result<Vec<PgRow>> {
    let is_proof =
        |row: &PgRow| Ok::<_, sqlx::Error>(row.try_get::<Option<&[u8]>, _>(0)?.is_none());
    match rows.pop() {
        Some(row) if is_proof(&row)? => Ok(rows),
        _ => Err(sqlx::Error::Protocol("the answer has no proof".into())),
    }
}

fn decode(row: &PgRow) -> Result<(Key, Versioned), Failed> {
    let key = row.try_get::<&[u8], _>(0)?;
    let key = std::str::from_utf8(key).map_err(|error| {
        let key = String::from_utf8_lossy(key);
        Failed::Row(Error::damaged(
            format!("the key `{}`", key.escape_debug()),
            error,
        ))
    })?;
    let row = Versioned {
        version: Version(row.try_get::<i64, _>(1)?.cast_unsigned()),
        value: Bytes::copy_from_slice(row.try_get::<&[u8], _>(2)?),
    };
    Ok((Key::from(key), row))
}
