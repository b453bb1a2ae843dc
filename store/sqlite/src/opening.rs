//! Opening a database. Refuses one that lost acknowledged commits, and completes one that lacks only commits whose
//! records are there.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::Path,
};

use control_plane_store::Version;
use rusqlite::{Connection, TransactionBehavior};

use crate::{
    Error,
    acked::{self, Acked, Found, Record, Records, State},
    damage::Damage,
    database::{self, Verified},
    directory::{Directory, Identity, io_error},
    error::{damaged, open_error},
    redo::{self, Commit},
};

/// Opens the database in `directory` for writing. Changes nothing before the database is known to be complete.
pub(crate) fn open(directory: &Directory) -> Result<(Connection, Acked, Identity), Error> {
    let (path, record) = (directory.database(), directory.acked());
    let found = acked::read(&record).map_err(|source| io_error(&record, source))?;
    refuse_missing(directory, &found)?;
    let mut connection = database::connect(&path).map_err(|source| open_error(&path, source))?;
    let mut verified = database::prepare(&mut connection, &path)?;
    let turn = match found {
        Found::Damaged => return Err(Error::Record { path: record }),
        Found::Nothing => {
            if verified.state.version > Version(0) {
                tracing::warn!(
                    path = %record.display(), commit = verified.state.version.0,
                    "the record of the newest acknowledged commit is missing; continuing with the commits in the database"
                );
            }
            0
        }
        Found::Records(records) => {
            if compare(&mut connection, directory, &verified, &records)? {
                verified = database::prepare(&mut connection, &path)?;
            }
            records.turn
        }
    };
    set_aside(&mut connection, &path, &verified)?;
    force_log(&mut connection, directory)?;
    database::fold(&connection).map_err(|source| open_error(&path, source))?;
    let io = |source| io_error(&record, source);
    let acked = Acked::open(&record, turn).map_err(io)?;
    directory.sync().map_err(io)?;
    let identity = directory.identity().map_err(io)?;
    Ok((connection, acked, identity))
}

/// Refuses a directory without database if other files show that there was one. SQLite would create an empty database,
/// and discard a log that it finds there.
fn refuse_missing(directory: &Directory, found: &Found) -> Result<(), Error> {
    let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let (path, log) = (directory.database(), directory.log());
    if length(&path) > 0 {
        return Ok(());
    }
    let beside = match found {
        Found::Records(records) if records.newest.after.version > Version(0) => directory.acked(),
        Found::Damaged => directory.acked(),
        _ if length(&log) > 0 => log,
        _ => return Ok(()),
    };
    Err(Error::Missing { path, beside })
}

/// Compares the database with the newest record. Completes the database if the records contain all commits that it
/// lacks, and returns whether it did.
fn compare(
    connection: &mut Connection,
    directory: &Directory,
    verified: &Verified,
    records: &Records,
) -> Result<bool, Error> {
    let path = directory.database();
    let damage = |damage| damaged(&path, damage);
    let (state, acked) = (verified.state, records.newest.after);
    if state.version >= acked.version {
        let batches = database::batches(connection).map_err(damage)?;
        let mut states = batches.iter().map(|(_, state)| *state);
        return match states.find(|state| state.version == acked.version) {
            Some(at) if at.content != acked.content => Err(damage(Damage::Other(acked.version))),
            _ => Ok(false),
        };
    }
    let Some(steps) = records.since(state) else {
        return Err(Error::Lost {
            path,
            found: state.version,
            acked: acked.version,
            record: directory.acked(),
        });
    };
    complete(connection, state, &steps).map_err(damage)?;
    tracing::warn!(
        path = %path.display(), commit = acked.version.0, groups = steps.len(),
        "the log lacked the newest commits; completed them from their records"
    );
    Ok(true)
}

/// Repeats the commits in the records' redo data, all of them or none.
fn complete(
    connection: &mut Connection,
    mut state: State,
    steps: &[(&Record, &[u8])],
) -> Result<(), Damage> {
    let transaction = connection.transaction()?;
    for (record, redo) in steps {
        for commit in redo::decode(redo).ok_or(Damage::Redo)? {
            let Commit {
                id,
                version,
                writes,
            } = commit;
            database::apply(&transaction, id, version, &writes, &mut state)?;
        }
        if state != record.after {
            return Err(Damage::Redo);
        }
    }
    Ok(transaction.commit()?)
}

/// Writes the log again as it was read, and forces it to the medium. After a sync that failed in an earlier process, the
/// system holds what it could not write for written, so that another sync alone would do nothing.
fn force_log(connection: &mut Connection, directory: &Directory) -> Result<(), Error> {
    let path = directory.database();
    // No other process may begin the log again meanwhile.
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|source| open_error(&path, source))?;
    let log = directory.log();
    let write_back = || match OpenOptions::new().read(true).write(true).open(&log) {
        Ok(mut file) => {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            file.write_all_at(&bytes, 0)?;
            file.sync_data()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    write_back().map_err(|source| io_error(&log, source))?;
    transaction
        .rollback()
        .map_err(|source| open_error(&path, source))
}

fn set_aside(connection: &mut Connection, path: &Path, verified: &Verified) -> Result<(), Error> {
    for (_, key) in &verified.unreadable {
        tracing::warn!(
            path = %path.display(), %key,
            "a record of history cannot be read; moved it to the table `aside`"
        );
    }
    if verified.unreadable.is_empty() {
        return Ok(());
    }
    database::set_aside(connection, verified).map_err(|source| open_error(path, source))
}
