//! Commands of processes that do not own the partition. Each is handled and answered in one commit, in which its row goes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plugin_sdk::{By, Now};

use super::{
    CommitNo, Lane,
    event::{Command, Effects, Record, Reply},
    refused::Refused,
};
use crate::record::{AnswerRecord, Answered, InboxId, InboxRecord, KeyRecord};

/// A command of another process, beside what it asks for.
pub(super) struct Given {
    pub(super) id: InboxId,
    pub(super) at: Timestamp,
    pub(super) by: By,
    pub(super) known: Option<Box<KeyRecord>>,
}

/// The commands whose answers are not durable yet, with the commits of the answers. Their rows are still there.
#[derive(Debug, Default)]
pub(super) struct Answering(BTreeMap<InboxId, CommitNo>);

impl Answering {
    /// Notes that a command is answered in this commit. `false`: it was answered before.
    fn begin(&mut self, id: &InboxId, commit: CommitNo) -> bool {
        let is_new = !self.0.contains_key(id);
        if is_new {
            self.0.insert(id.clone(), commit);
        }
        is_new
    }

    /// Forgets the commands whose rows are gone, because everything up to this commit is durable.
    pub(super) fn durable(&mut self, upto: CommitNo) {
        self.0.retain(|_, commit| *commit > upto);
    }
}

impl Lane {
    /// Takes a command of another process, once.
    pub(super) fn asked(
        &mut self,
        now: Now,
        given: Given,
        command: Result<Command, Refused>,
        out: &mut Effects,
    ) {
        let Given { id, at, by, known } = given;
        if !self.answering.begin(&id, CommitNo(self.commit.0 + 1)) {
            return;
        }
        let is_old =
            now.wall.duration_since(at).unsigned_abs() > InboxRecord::TIME && at < now.wall;
        let reply = match command {
            _ if is_old => Err(Refused::TooOld { at }),
            Ok(command) => self.obey(now, command, &by, known, out),
            Err(refused) => Err(refused),
        };
        let answer = match reply {
            Ok(Reply::Started { id, new, outcome }) => Answered::Started { id, new, outcome },
            Err(refused) | Ok(Reply::Refused(refused)) => Answered::refused(&refused),
            // Nothing else is asked for.
            Ok(_) => Answered::Taken,
        };
        let answer = AnswerRecord {
            at: now.wall,
            answer,
        };
        out.records.push(Record::Answered(id, Box::new(answer)));
        out.urgent = true;
    }
}
