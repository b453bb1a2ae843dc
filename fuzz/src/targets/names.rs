//! Names that are parsed from text: field paths, ids, digests, times.

use std::{fmt::Display, str::FromStr};

use plugin_sdk::{ChangeId, FieldPath};
use prodspec_model::{AssetId, Digest, IncarnationId, PartitionId, TypeName};
use serde::{Serialize, de::DeserializeOwned};

use crate::target::{Broken, Class, Effort, Target, law};

/// All types of names at once: each text is tried as each of them.
#[derive(Debug)]
pub(crate) struct Names;

const WORDS: &[&str] = &[
    "[0]",
    "[\"a.b\"]",
    "[\"\\u00e9\"]",
    ".",
    "/",
    "@42",
    "@4294967296",
    "v1.",
    "job/eu",
    "[18446744073709551616]",
];

impl Target for Names {
    fn name(&self) -> &'static str {
        "names"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let seeds = [
            r#"clusters[2].labels["example.com/tier"].x"#,
            r#"[0][1]["a\"b\\\n\u00e9"]"#,
            "frontend/eu-west/job.1",
            "shakespeare@42",
            "shakespeare.v1.FrontendJob",
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "change-1.2_3",
        ];
        seeds.map(|seed| seed.as_bytes().to_vec()).to_vec()
    }

    fn words(&self) -> &'static [&'static str] {
        WORDS
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        let text = String::from_utf8_lossy(input);
        let classes = [
            name::<FieldPath>(&text, |it| it.steps().len(), Short::No)?,
            name::<AssetId>(&text, |it| it.as_str().len(), Short::Yes)?,
            name::<PartitionId>(&text, |it| it.as_str().len(), Short::Yes)?,
            name::<TypeName>(&text, |it| it.as_str().len(), Short::Yes)?,
            name::<IncarnationId>(&text, |it| it.no.0 as usize, Short::Yes)?,
            name::<Digest>(&text, |_| 1, Short::Yes)?,
            change(&text)?,
        ];
        Ok(classes.into_iter().fold(Class::accepted(&[]), Class::and))
    }
}

/// Whether errors show long texts shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    /// They do.
    Yes,
    /// They show the whole text.
    No,
}

/// Tries a text as one type of name.
///
/// # Errors
/// The law that the type broke.
pub(crate) fn name<T>(text: &str, size: fn(&T) -> usize, short: Short) -> Result<Class, Broken>
where
    T: FromStr<Err: Display> + Display + PartialEq + Serialize + DeserializeOwned,
{
    let json = serde_json::to_string(text).unwrap_or_default();
    let from_json = serde_json::from_str::<T>(&json);
    match text.parse::<T>() {
        Ok(name) => {
            let written = name.to_string();
            let again = written.parse::<T>();
            law(
                again.is_ok_and(|again| again == name),
                "a name that is written and parsed again is the same",
                || written,
            )?;
            law(
                from_json.is_ok_and(|it| it == name),
                "a name is the same in JSON",
                || json.clone(),
            )?;
            let back = serde_json::to_string(&name)
                .ok()
                .and_then(|json| serde_json::from_str::<T>(&json).ok());
            law(
                back.is_some_and(|back| back == name),
                "a name that is written to JSON and read again is the same",
                || json,
            )?;
            Ok(Class::accepted(&[size(&name)]))
        }
        Err(error) => {
            law(
                from_json.is_err(),
                "a name that is refused is refused in JSON",
                || json,
            )?;
            let said = error.to_string();
            law(
                short == Short::No || said.len() < 1_500,
                "an error shows a long name shortened",
                || said.clone(),
            )?;
            Ok(Class::refused(&said))
        }
    }
}

fn change(text: &str) -> Result<Class, Broken> {
    match ChangeId::new(text) {
        Ok(id) => {
            law(
                id.as_str() == text,
                "the id of a change is its text",
                || text.into(),
            )?;
            Ok(Class::accepted(&[text.len()]))
        }
        Err(_) => Ok(Class::refused("")),
    }
}
