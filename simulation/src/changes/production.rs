//! Production: the content of each service.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::manifest::{Service, is_sick};
use crate::executor::{Instant, NodeRuntime};

/// The content of all services.
#[derive(Debug, Default)]
pub(super) struct Production(BTreeMap<String, Running>);

/// The content of a service, with the time since which it has each field.
#[derive(Debug, Clone, Copy)]
struct Running {
    content: Service,
    version_since: Instant,
    flag_since: Instant,
}

impl Production {
    /// The content of a service. `None`: it does not run.
    pub(super) fn content(&self, name: &str) -> Option<Service> {
        Some(self.0.get(name)?.content)
    }

    /// Whether a service has had this value of a field since `then`.
    pub(super) fn has_since(&self, name: &str, (field, value): (&str, u64), then: Instant) -> bool {
        self.0.get(name).is_some_and(|it| {
            let since = match field {
                "flag" => it.flag_since,
                _ => it.version_since,
            };
            it.content.field(field) == value && since <= then
        })
    }

    /// Whether a service answers with errors that began at `then` or later.
    pub(super) fn is_sick_since(&self, name: &str, then: Timestamp) -> bool {
        self.0.get(name).is_some_and(|it| {
            let fields = [
                (it.content.version, it.version_since),
                (it.content.flag, it.flag_since),
            ];
            let mut sick = fields.into_iter().filter(|(value, _)| is_sick(*value));
            sick.any(|(_, since)| NodeRuntime::wall(since) >= then)
        })
    }

    /// A service gets this content.
    pub(super) fn put(&mut self, now: Instant, name: &str, content: Service) {
        let before = self.0.get(name).copied();
        let keeps =
            |field: &str| before.filter(|it| it.content.field(field) == content.field(field));
        let running = Running {
            content,
            version_since: keeps("version").map_or(now, |it| it.version_since),
            flag_since: keeps("flag").map_or(now, |it| it.flag_since),
        };
        self.0.insert(name.to_owned(), running);
    }
}
