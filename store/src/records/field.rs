//! The field-ownership ledger: which program holds which fields of editable sources. A rollout or an operation that set a
//! field holds it until it ends, so that no other program sets it meanwhile (S6).

use std::collections::BTreeMap;

use jiff::Timestamp;
use plugin_sdk::{ChangeId, FieldEdit, FieldPath, Holder};
use prodspec_model::{PartitionId, Revision, SourceName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Record, Store, record};

/// One field that a program holds: no other program may set it, nor a field within it or around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldField {
    /// The source of the field.
    pub source: SourceName,
    /// The edit by which the holder set the field last. Its `was` is the value before the holder set it first.
    #[serde(flatten)]
    pub edit: FieldEdit,
    /// The program that holds the field.
    pub holder: Holder,
    /// The change that set it last.
    pub change: ChangeId,
    /// Time at which it was set last.
    pub at: Timestamp,
    /// What another program or person, who does not ask the ledger, has made of the field since. The field is not held any
    /// more then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwritten: Option<Overwritten>,
}

/// A held field was set by hand, or by a program that does not ask the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overwritten {
    /// The value that was found. `None`: the field is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Value>,
    /// Time at which it was found.
    pub at: Timestamp,
    /// The revision of the source that has it.
    pub revision: Revision,
}

impl Record for HeldField {
    const KIND: &'static str = "field";
}

impl HeldField {
    /// Name under which the field is recorded.
    pub fn name(&self) -> String {
        name(&self.source, &self.edit.document, &self.edit.path)
    }
}

fn name(source: &SourceName, document: &str, path: &FieldPath) -> String {
    format!("{} {document} {path}", source.0)
}

/// All held fields of one partition.
///
/// ```
/// use control_plane_store::records::{HeldField, Ledger};
/// use plugin_sdk::{ChangeId, FieldEdit};
/// use prodspec_model::SourceName;
///
/// let source = SourceName("manifest.yaml".into());
/// let edit = |path: &str, to: u32| FieldEdit::set("manifest.yaml#0", path.parse().unwrap(), 3, to);
/// let mut ledger = Ledger::default();
/// ledger.put(HeldField {
///     source: source.clone(),
///     edit: edit("clusters[0].replicas", 5),
///     holder: "autoscaler".into(),
///     change: ChangeId::new("one").unwrap(),
///     at: Default::default(),
///     overwritten: None,
/// });
/// let refused = ledger.conflict(&source, &[edit("clusters[0]", 4)], None).unwrap();
/// assert_eq!(refused.holder.to_string(), "autoscaler");
/// assert!(ledger.conflict(&source, &[edit("clusters[1]", 4)], None).is_none());
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger(BTreeMap<String, HeldField>);

impl Ledger {
    /// Reads the ledger of `partition`.
    ///
    /// # Errors
    /// If the store cannot be read, or a record of the ledger is damaged: then no field may be set.
    pub async fn load(
        store: &(impl Store + ?Sized),
        partition: &PartitionId,
    ) -> Result<Self, Error> {
        let all = record::load_all::<HeldField>(store, partition).await?;
        let fields = all.into_iter().map(|(name, field)| (name, field.value));
        Ok(Self(fields.collect()))
    }

    /// All held fields, ordered by source, document and path.
    pub fn fields(&self) -> impl Iterator<Item = &HeldField> {
        self.0.values()
    }

    /// The held fields of one source.
    pub fn of_source(&self, source: &SourceName) -> impl Iterator<Item = &HeldField> {
        self.fields().filter(move |field| field.source == *source)
    }

    /// The held fields of one holder.
    pub fn of_holder(&self, holder: &Holder) -> impl Iterator<Item = &HeldField> {
        self.fields().filter(move |field| field.holder == *holder)
    }

    /// The first held field that one of `edits` would set, in whole or in part, although another program than `holder`
    /// holds it, or `holder` holds it under another path. `None`: all may be set.
    pub fn conflict(
        &self,
        source: &SourceName,
        edits: &[FieldEdit],
        holder: Option<&Holder>,
    ) -> Option<&HeldField> {
        let foreign = |field: &&HeldField| {
            let own = Some(&field.holder) == holder;
            let sets = |edit: &FieldEdit| {
                // A holder has one name for each field, too.
                let (path, held) = (&edit.path, &field.edit.path);
                let known = own && (path.is_prefix_of(held) || held.is_prefix_of(path));
                !known && edit.overlaps(&field.edit)
            };
            field.overwritten.is_none() && edits.iter().any(sets)
        };
        self.of_source(source).find(foreign)
    }

    /// Adds a field, or replaces it.
    pub fn put(&mut self, field: HeldField) {
        self.0.insert(field.name(), field);
    }

    /// The record of a field, if it is held.
    pub fn get(&self, source: &SourceName, edit: &FieldEdit) -> Option<&HeldField> {
        self.0.get(&name(source, &edit.document, &edit.path))
    }

    /// The field with this record name, if it is held.
    pub fn named(&self, name: &str) -> Option<&HeldField> {
        self.0.get(name)
    }

    /// Removes the field with this record name.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> SourceName {
        SourceName("apps.yaml".into())
    }

    fn edit(path: &str) -> FieldEdit {
        FieldEdit::set("apps.yaml#0", path.parse().unwrap(), 1, 2)
    }

    fn held(path: &str, holder: &str) -> HeldField {
        HeldField {
            source: source(),
            edit: edit(path),
            holder: holder.into(),
            change: ChangeId::new("c").unwrap(),
            at: Timestamp::UNIX_EPOCH,
            overwritten: None,
        }
    }

    #[test]
    fn s6_field_around_or_within_a_held_one_is_refused_to_all_but_its_holder() {
        let mut ledger = Ledger::default();
        ledger.put(held("a.b", "one"));
        let conflict = |path: &str, holder: Option<&str>| {
            let holder = holder.map(Holder::from);
            let edits = [edit("z"), edit(path)];
            ledger
                .conflict(&source(), &edits, holder.as_ref())
                .is_some()
        };
        for (path, overlaps) in [
            ("a", true),
            ("a.b", true),
            ("a.b.c", true),
            ("a.bc", false),
            ("", true),
        ] {
            assert_eq!(conflict(path, Some("two")), overlaps, "{path}");
            assert_eq!(conflict(path, None), overlaps, "{path}");
            assert!(!conflict(path, Some("one")), "{path}");
        }
        let other = SourceName("other.yaml".into());
        assert!(ledger.conflict(&other, &[edit("a.b")], None).is_none());
    }

    #[test]
    fn s6_overwritten_field_is_held_no_more() {
        let mut ledger = Ledger::default();
        let mut field = held("a.b", "one");
        field.overwritten = Some(Overwritten {
            found: None,
            at: Timestamp::UNIX_EPOCH,
            revision: Revision("7".into()),
        });
        ledger.put(field);
        assert!(ledger.conflict(&source(), &[edit("a.b")], None).is_none());
    }

    #[test]
    fn held_field_reads_back_from_its_record() {
        let field = held("a.b", "one");
        let text = serde_json::to_string(&field).unwrap();
        assert_eq!(serde_json::from_str::<HeldField>(&text).unwrap(), field);
    }
}
