//! Reads: each is one statement, which sees one snapshot.

use std::collections::BTreeMap;

use bytes::Bytes;
use control_plane_store::{Error, Key, KeyRange, Page, Version, Versioned, limit};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::statement::bounds;

/// Reads rows by their keys.
pub(crate) const GET: &str = "select key, version, value from rows where key = any($1)";

/// Reads the rows of a page. The last one is the one with which the page is full.
macro_rules! scan {
    ($range:literal) => {
        concat!(
            "select key, version, value from (select key, version, value, \
             sum(octet_length(key) + octet_length(value)) over \
             (order by key rows between unbounded preceding and 1 preceding) as before \
             from (select key, version, value from rows where ",
            $range,
            " order by key limit $2) r) r where before is null or before < $3 order by key"
        )
    };
}
const BOUNDED: &str = scan!("key >= $1 and key < $4");
const OPEN: &str = scan!("key >= $1");

/// Maximum number of rows of a page, whatever the caller allows. The server looks at so many to find the end of a page.
const ROWS: usize = 1 << 14;

/// Removes all but the newest batches, as many as a store has to remember, and those of the last ten minutes. Processes commit
/// side by side: the batch of one may be submitted again after thousands of the others.
const PRUNE: &str = "delete from batches where at < now() - interval '10 min' \
    and version <= (select version from batches order by version desc offset $1 limit 1)";

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
    keys: &[Key],
) -> Result<Vec<Option<Versioned>>, Failed> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let wanted: Vec<&[u8]> = keys.iter().map(|key| key.as_str().as_bytes()).collect();
    let rows = sqlx::query(GET).bind(wanted).fetch_all(connection).await?;
    let rows = rows.iter().map(decode);
    let rows = rows.collect::<Result<BTreeMap<Key, Versioned>, _>>()?;
    Ok(keys.iter().map(|key| rows.get(key).cloned()).collect())
}

/// Reads the first page of `range`.
pub(crate) async fn scan(
    connection: &mut PgConnection,
    range: &KeyRange,
    limit: usize,
) -> Result<Page, Failed> {
    if range.is_empty() {
        return Ok(Page::default());
    }
    let limit = limit.clamp(1, ROWS);
    let (start, end) = bounds(range);
    let select = sqlx::query(if end.is_some() { BOUNDED } else { OPEN })
        .bind(start)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(i64::try_from(limit::PAGE).unwrap_or(i64::MAX));
    let select = match end {
        Some(end) => select.bind(end),
        None => select,
    };
    let rows = select.fetch_all(connection).await?;
    let rows = rows.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    Ok(Page::collect(range, limit, rows))
}

/// Forgets batches that are old enough.
pub(crate) async fn prune(connection: &mut PgConnection) -> Result<u64, Failed> {
    let kept = i64::try_from(limit::REMEMBERED_BATCHES).unwrap_or(i64::MAX);
    let pruned = sqlx::query(PRUNE).bind(kept).execute(connection).await?;
    Ok(pruned.rows_affected())
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
