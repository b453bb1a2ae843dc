//! The wire format, which programs write.

use std::marker::PhantomData;

use plugin_sdk::{Problem, document::Node};
use prodspec_gen::format::{Format, Limits};
use prost::encoding::decode_varint;
use prost_reflect::DynamicMessage;

use crate::schema::{Schema, tree};

/// Files in the wire format, each of which is one message of the schema.
///
/// The format does not tell where a message ends: a file that was cut off between two fields is a shorter message. Replace
/// files atomically, or use [`Delimited`].
#[derive(Debug)]
pub struct Binary<S>(PhantomData<fn() -> S>);

impl<S: Schema> Format for Binary<S> {
    const NAME: &'static str = "protobuf";
    const EXTENSIONS: &'static [&'static str] = &["binpb", "pb"];
    const END: Option<&'static str> = None;

    fn parse(text: &str, _: &Limits) -> Result<Vec<Node>, Problem> {
        Ok(vec![message::<S>(text.as_bytes())?])
    }

    fn parse_bytes(bytes: &[u8], _: &Limits) -> Option<Result<Vec<Node>, Problem>> {
        Some(message::<S>(bytes).map(|node| vec![node]))
    }
}

/// Files with any number of messages of the schema in the wire format, each after its length as a varint, as
/// `writeDelimitedTo` and `encode_length_delimited` write them. A file that was cut off within a message is refused.
#[derive(Debug)]
pub struct Delimited<S>(PhantomData<fn() -> S>);

impl<S: Schema> Format for Delimited<S> {
    const NAME: &'static str = "delimited protobuf";
    const EXTENSIONS: &'static [&'static str] = &["binpbs", "pbs"];
    const END: Option<&'static str> = None;

    fn parse(text: &str, _: &Limits) -> Result<Vec<Node>, Problem> {
        messages::<S>(text.as_bytes())
    }

    fn parse_bytes(bytes: &[u8], _: &Limits) -> Option<Result<Vec<Node>, Problem>> {
        Some(messages::<S>(bytes))
    }
}

fn message<S: Schema>(bytes: &[u8]) -> Result<Node, Problem> {
    let descriptor = S::message()?;
    let name = descriptor.full_name().to_owned();
    let message = DynamicMessage::decode(descriptor, bytes);
    let message = message.map_err(|error| {
        Problem::new(format!(
            "not a whole `{name}`: {error}; write the file again"
        ))
    })?;
    tree(&message)
}

fn messages<S: Schema>(bytes: &[u8]) -> Result<Vec<Node>, Problem> {
    let (mut rest, mut nodes) = (bytes, Vec::new());
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let number = nodes.len();
        let length = decode_varint(&mut rest)
            .ok()
            .and_then(|length| usize::try_from(length).ok());
        let split = length.and_then(|length| rest.split_at_checked(length));
        let Some((own, after)) = split else {
            return Err(Problem::new(format!(
                "message {number}, from byte {at}, does not end in the file, which may be cut off; write it again"
            )));
        };
        nodes.push(message::<S>(own).map_err(|mut problem| {
            problem.message = format!("message {number}, from byte {at}: {}", problem.message);
            problem
        })?);
        rest = after;
    }
    Ok(nodes)
}
