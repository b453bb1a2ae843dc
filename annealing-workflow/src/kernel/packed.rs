//! The edit of a step in memory. While it is made it is open. When it is made or over it is only waited for or kept for a
//! restore, often for months and by hundreds of thousands of steps: then it is packed into one small piece of memory.

use std::borrow::Cow;

use prodspec_model::Digest;

use crate::record::StepEdit;

/// The edit of a step, if its last answer asked for one.
#[derive(Debug, Default)]
pub(super) struct Kept(Form);

#[derive(Debug)]
enum Form {
    Open(Box<StepEdit>),
    /// The [`facts`] of the edit in one byte, and its JSON made [`short`]. Empty: there is no edit.
    Packed(Box<[u8]>),
}

impl Default for Form {
    fn default() -> Self {
        Self::Packed(Box::default())
    }
}

/// The fact that the action has gone on.
const OVER: u8 = 1;
/// The fact that the edits wait for a machine that makes what several machines have gathered.
const GATHERED: u8 = 2;

/// What is read often, or changes while the edit is packed. It overrides what the JSON says.
fn facts(edit: &StepEdit) -> u8 {
    let over = if edit.over { OVER } else { 0 };
    let gathered = if edit.gathered { GATHERED } else { 0 };
    over | gathered
}

impl Kept {
    /// An edit that is to be made, or was read from the store.
    pub(super) fn open(edit: impl Into<Box<StepEdit>>) -> Self {
        Self(Form::Open(edit.into()))
    }

    pub(super) fn is_some(&self) -> bool {
        match &self.0 {
            Form::Open(_) => true,
            Form::Packed(bytes) => !bytes.is_empty(),
        }
    }

    fn has(&self, fact: u8) -> bool {
        match &self.0 {
            Form::Open(edit) => facts(edit) & fact != 0,
            Form::Packed(bytes) => bytes.first().is_some_and(|facts| facts & fact != 0),
        }
    }

    /// Whether the present action has yet to make the edit or to wait for it.
    pub(super) fn is_pending(&self) -> bool {
        self.is_some() && !self.has(OVER)
    }

    /// Whether the edits wait for a machine that makes what several machines have gathered.
    pub(super) fn is_gathered(&self) -> bool {
        self.has(GATHERED)
    }

    /// Whether the edit is not made yet, as far as is known, and its action has not gone on. Such an edit is open.
    pub(super) fn may_come(&self) -> bool {
        match &self.0 {
            Form::Open(edit) => !edit.over && edit.assets.is_none(),
            Form::Packed(_) => false,
        }
    }

    /// Notes that the action has gone on.
    pub(super) fn end(&mut self) {
        match &mut self.0 {
            Form::Open(edit) => edit.over = true,
            Form::Packed(bytes) => {
                if let Some(facts) = bytes.first_mut() {
                    *facts |= OVER;
                }
            }
        }
    }

    /// Notes that another machine has made what this one has gathered.
    pub(super) fn gathered_is_made(&mut self) {
        match &mut self.0 {
            Form::Open(edit) => edit.gathered = false,
            Form::Packed(bytes) => {
                if let Some(facts) = bytes.first_mut() {
                    *facts &= !GATHERED;
                }
            }
        }
    }

    pub(super) fn get(&self) -> Option<Cow<'_, StepEdit>> {
        match &self.0 {
            Form::Open(edit) => Some(Cow::Borrowed(edit.as_ref())),
            Form::Packed(bytes) => unpacked(bytes).map(Cow::Owned),
        }
    }

    /// Opens the edit, to change it.
    pub(super) fn open_mut(&mut self) -> Option<&mut StepEdit> {
        if let Form::Packed(bytes) = &self.0 {
            let edit = unpacked(bytes)?;
            self.0 = Form::Open(Box::new(edit));
        }
        match &mut self.0 {
            Form::Open(edit) => Some(edit.as_mut()),
            Form::Packed(_) => None,
        }
    }

    pub(super) fn take(&mut self) -> Option<StepEdit> {
        match std::mem::take(&mut self.0) {
            Form::Open(edit) => Some(*edit),
            Form::Packed(bytes) => unpacked(&bytes),
        }
    }

    /// Packs an edit that is made or over.
    pub(super) fn pack(&mut self) {
        if let Form::Open(edit) = &self.0
            && (edit.over || edit.assets.is_some())
            && let Some(bytes) = packed(edit)
        {
            self.0 = Form::Packed(bytes);
        }
    }

    #[cfg(test)]
    pub(super) fn is_packed(&self) -> bool {
        matches!(self.0, Form::Packed(_))
    }
}

/// An edit in few bytes. `None`: they would not give the same edit back, so it stays open. That is looked at here, so
/// nothing packed is ever unreadable.
fn packed(edit: &StepEdit) -> Option<Box<[u8]>> {
    let json = serde_json::to_vec(edit).ok()?;
    let mut bytes = short(&json);
    bytes.insert(0, facts(edit));
    let same = unpacked(&bytes).is_some_and(|unpacked| unpacked == *edit);
    same.then(|| bytes.into_boxed_slice())
}

/// The edit in these bytes. `None`: they are empty.
fn unpacked(bytes: &[u8]) -> Option<StepEdit> {
    let (facts, short) = bytes.split_first()?;
    let mut edit: StepEdit = serde_json::from_slice(&long(short)?).ok()?;
    edit.over = facts & OVER != 0;
    edit.gathered = facts & GATHERED != 0;
    Some(edit)
}

/// Texts that the JSON of edits often has, the longer ones before those with which they begin. The place in this list
/// stands for the text as one byte: JSON escapes control characters, so it has no such byte itself.
const PHRASES: [&str; 26] = [
    r#"{"id":""#,
    r#"","outcome":"done","edits":[{"source":""#,
    r#"","outcome":""#,
    r#","edits":[{"source":""#,
    r#"","document":""#,
    r#"","path":""#,
    r#"","was":"#,
    r#","to":"#,
    r#"},{"source":""#,
    r#"}],"before":[{"source":""#,
    r#"}],"assets":[""#,
    r#","assets":["#,
    r#","pauses":[{"asset":""#,
    r#"},{"asset":""#,
    r#"","why":""#,
    r#","starts":[{"workflow":""#,
    r#"","key":""#,
    r#"","input":"#,
    r#","labels":{"#,
    r#","lenient":true"#,
    r#","blast_radius":"#,
    r#","turndown":true"#,
    r#","gathered":true"#,
    r#","over":true}"#,
    r#""]}"#,
    r#"",""#,
];
/// Stands before the 32 bytes of a digest: the id of most edits is one, in 64 hexadecimal digits.
const DIGEST: u8 = 0x1f;
const _: () = assert!(PHRASES.len() < DIGEST as usize && DIGEST < b' ');

/// JSON with its phrases and digests in fewer bytes.
fn short(json: &[u8]) -> Vec<u8> {
    let mut short = Vec::new();
    let mut rest = json;
    while let [first, after @ ..] = rest {
        let mut phrases = (0_u8..).zip(PHRASES);
        let phrase = phrases.find_map(|(n, phrase)| {
            let after = rest.strip_prefix(phrase.as_bytes())?;
            Some((n, after))
        });
        rest = if let Some((n, after)) = phrase {
            short.push(n);
            after
        } else if let Some((digest, after)) = digest(rest) {
            short.push(DIGEST);
            short.extend_from_slice(&digest.0);
            after
        } else {
            short.push(*first);
            after
        };
    }
    short
}

/// The digest with which a text begins, and what follows it.
fn digest(text: &[u8]) -> Option<(Digest, &[u8])> {
    let (digits, after) = text.split_first_chunk::<64>()?;
    let digits = std::str::from_utf8(digits).ok()?;
    let digest: Digest = digits.parse().ok()?;
    // Capital digits would come back as small ones.
    (digest.to_string() == digits).then_some((digest, after))
}

/// The JSON that was made [`short`].
fn long(short: &[u8]) -> Option<Vec<u8>> {
    let mut json = Vec::new();
    let mut rest = short;
    while let [first, after @ ..] = rest {
        rest = after;
        match PHRASES.get(usize::from(*first)) {
            Some(phrase) => json.extend_from_slice(phrase.as_bytes()),
            None if *first == DIGEST => {
                let (digest, after) = rest.split_first_chunk::<32>()?;
                json.extend_from_slice(Digest(*digest).to_string().as_bytes());
                rest = after;
            }
            None => json.push(*first),
        }
    }
    Some(json)
}

#[cfg(test)]
mod tests {
    use plugin_sdk::{
        ChangeId, FieldEdit,
        operation::{PauseAsset, SourceEdit, Start},
    };
    use prodspec_model::{AssetId, SourceName};
    use serde_json::{Value, json};

    use super::*;

    fn edits(to: Value) -> Vec<SourceEdit> {
        let path = || r#"eu["a.b"][2].version"#.parse().unwrap();
        let source = |edit| SourceEdit {
            source: SourceName("jobs".into()),
            edit,
        };
        let odd = json!({ r#"","was":"#: [1.5, "\u{1}\n\"é"] });
        vec![
            source(FieldEdit::set("jobs#0", path(), Value::Null, to)),
            source(FieldEdit::add("jobs#0", path(), odd)),
            source(FieldEdit::remove("jobs#1", path(), -0.1)),
        ]
    }

    /// An edit with each of its fields.
    fn full(id: &str) -> StepEdit {
        let asset = |name| AssetId::new(name).unwrap();
        StepEdit {
            id: ChangeId::new(id).unwrap(),
            outcome: "grown".into(),
            edits: edits(u64::MAX.into()),
            before: edits("x".into()),
            pauses: vec![
                PauseAsset::new(asset("job/eu"), "it is changed"),
                PauseAsset::new(asset("job/us"), ""),
            ],
            starts: vec![
                Start::of("notify"),
                Start::of("notify")
                    .key("k")
                    .input(json!([null]))
                    .label("app", "shop"),
            ],
            lenient: true,
            blast_radius: Some(7),
            turndown: true,
            gathered: true,
            assets: Some(vec![asset("job/eu"), asset("job/us")]),
            over: true,
        }
    }

    /// The edit that most steps have which wait for assets.
    fn common() -> StepEdit {
        let id = Digest::of(b"set").to_string();
        let field = FieldEdit::set("jobs#0", "eu.version".parse().unwrap(), 1, 2);
        StepEdit {
            edits: vec![SourceEdit {
                source: SourceName("jobs".into()),
                edit: field,
            }],
            assets: Some(vec![AssetId::new("job/eu").unwrap()]),
            ..StepEdit::new(ChangeId::new(&id).unwrap(), &"done".into())
        }
    }

    #[test]
    fn packed_edit_gives_back_each_field() {
        let digest = Digest::of(b"a").to_string();
        let upper = digest.to_uppercase();
        let mut all: Vec<StepEdit> = ["7", &digest, &upper].map(full).into();
        let done = StepEdit::new(ChangeId::from(7), &"done".into());
        all.extend([
            common(),
            StepEdit {
                assets: Some(Vec::new()),
                ..done.clone()
            },
            StepEdit {
                lenient: true,
                over: true,
                ..done
            },
        ]);
        for edit in all {
            let mut kept = Kept::open(edit.clone());
            kept.pack();
            assert!(kept.is_packed(), "{edit:?}");
            assert_eq!(kept.get().as_deref(), Some(&edit));
            let bytes = serde_json::to_vec(&edit).unwrap();
            assert_eq!(serde_json::to_vec(&kept.get()).unwrap(), bytes);
            assert!(kept.is_some() && !kept.may_come());
            assert_eq!(kept.is_pending(), !edit.over);
            assert_eq!(kept.is_gathered(), edit.gathered);
            assert_eq!(kept.open_mut().cloned(), Some(edit.clone()));
            assert!(!kept.is_packed(), "it is open now");
            kept.pack();
            assert_eq!(kept.take(), Some(edit));
            assert!(!kept.is_some());
        }
    }

    #[test]
    fn edit_that_is_to_be_made_or_would_not_come_back_stays_open() {
        let mut kept = Kept::open(StepEdit::new(ChangeId::from(7), &"done".into()));
        kept.pack();
        assert!(!kept.is_packed() && kept.may_come() && kept.is_pending());
        // Its bytes could not be read: the outcome has a space.
        let odd = StepEdit {
            outcome: "not a name".into(),
            ..full("7")
        };
        let mut kept = Kept::open(odd.clone());
        kept.pack();
        assert!(!kept.is_packed());
        assert_eq!(kept.take(), Some(odd));
        let mut none = Kept::default();
        none.pack();
        none.end();
        assert!(!none.is_some() && !none.is_pending());
        assert!(none.get().is_none() && none.open_mut().is_none());
        assert_eq!(none.take(), None);
    }

    #[test]
    fn facts_change_while_an_edit_is_packed() {
        let mut edit = full("7");
        edit.over = false;
        let mut kept = Kept::open(edit.clone());
        kept.pack();
        assert!(kept.is_pending() && kept.is_gathered());
        kept.end();
        kept.gathered_is_made();
        assert!(kept.is_packed());
        assert!(!kept.is_pending() && !kept.is_gathered());
        (edit.over, edit.gathered) = (true, false);
        assert_eq!(kept.take(), Some(edit));
    }

    #[test]
    fn packed_edit_takes_few_bytes() {
        assert_eq!(size_of::<Kept>(), 16);
        let size = packed(&common()).unwrap().len();
        assert!(size <= 72, "{size}");
    }
}
