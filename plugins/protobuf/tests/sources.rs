//! Messages in files as documents, through the sources of files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{path::Path, sync::LazyLock};

use plugin_sdk::{Problem, SourceOfTruth, conformance, document::Node};
use plugins_protobuf::{Binary, Delimited, Descriptors, Schema, Text};
use prodspec_gen::file::{Files, Folder, OneFile};
use prodspec_model::protobuf::Proto;
use prost::Message;
use prost_reflect::{MessageDescriptor, ReflectMessage};
use serde_json::json;

const PROTO: &str = r#"syntax = "proto3";
package shop.v1;
import "shop/v1/limits.proto";
message Service { string name = 1; int64 replicas = 2; bool is_public = 3; Limits limits = 4; Service fallback = 5; }
"#;
const LIMITS: &str =
    "syntax = \"proto3\";\npackage shop.v1;\nmessage Limits { double cores = 1; }\n";

static PROTOS: LazyLock<Descriptors> = LazyLock::new(|| {
    let dir = protos(PROTO);
    Descriptors::compile([dir.path()], ["shop/v1/service.proto"]).unwrap()
});

/// A directory with the files.
fn protos(service: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let within = dir.path().join("shop/v1");
    std::fs::create_dir_all(&within).unwrap();
    std::fs::write(within.join("service.proto"), service).unwrap();
    std::fs::write(within.join("limits.proto"), LIMITS).unwrap();
    dir
}

struct Schemed;

impl Schema for Schemed {
    fn message() -> Result<MessageDescriptor, Problem> {
        PROTOS.message("shop.v1.Service")
    }
}

/// As prost generates it, but for what the tests do not need.
#[derive(Clone, PartialEq, Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, tag = "2")]
    replicas: i64,
}

impl prost::Name for Service {
    const NAME: &'static str = "Service";
    const PACKAGE: &'static str = "shop.v1";
}

impl ReflectMessage for Service {
    fn descriptor(&self) -> MessageDescriptor {
        PROTOS.message("shop.v1.Service").unwrap()
    }
}

fn web() -> Service {
    Service {
        name: "web".into(),
        replicas: 1 << 60,
    }
}

fn file<S>(
    dir: &Path,
    name: &str,
    content: impl AsRef<[u8]>,
    source: fn(std::path::PathBuf) -> S,
) -> S {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    source(path)
}

async fn text_problem(content: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let source = file(
        dir.path(),
        "s.textproto",
        content,
        Files::<OneFile<Text<Schemed>>>::new,
    );
    source.read().await.unwrap_err().to_string()
}

#[tokio::test]
async fn text_files_are_documents_with_the_json_mapping() {
    let dir = tempfile::tempdir().unwrap();
    let content =
        "# The shop.\nname: 'web' replicas: 0x10 is_public: true\nlimits < cores: 1.5 >\n# end\n";
    std::fs::write(dir.path().join("web.textproto"), content).unwrap();
    std::fs::write(dir.path().join("empty.txtpb"), "# nothing yet {\n# end\n").unwrap();
    let source = Files::<Folder<Text<Schemed>>>::new(dir.path()).with_end_marker();
    let reading = source.read().await.unwrap();
    let expected =
        json!({"isPublic": true, "limits": {"cores": 1.5}, "name": "web", "replicas": "16"});
    assert_eq!(reading.documents.len(), 1);
    assert_eq!(reading.documents[0].root(), &Node::from(expected));
    assert_eq!(reading.documents[0].name(), "web.textproto#0");
    let service: Proto<Service> = reading.documents[0].read().unwrap();
    assert_eq!(service.0.replicas, 16);
}

#[tokio::test]
async fn text_problems_have_line_and_column() {
    for (content, expected) in [
        (
            "name: 'web'\nreplcas: 3",
            "s.textproto:2:1: field 'replcas' not found for message 'shop.v1.Service'",
        ),
        (
            "name: 'é' replicas: 'x'",
            "s.textproto:1:21: expected an integer",
        ),
        (
            "limits {\n  cores: 1",
            "s.textproto:2:11: expected '}' or a field name, but reached end of input",
        ),
        (
            "limits { cores: nan }",
            "limits.cores: NaN is not a JSON number",
        ),
        ("{{ .Values.name }}", "s.textproto:1:1: expected"),
        (
            "name: 'a'\nname: 'b'",
            "s.textproto:2:7: 'name' is already set",
        ),
        ("name: 'a' 99: 1", "s.textproto:1:11"),
    ] {
        let found = text_problem(content).await;
        assert!(found.contains(expected), "{expected} in {found}");
    }
    let deep = format!("name: '[[[\\'{{' # <<<\n{}", "fallback { ".repeat(100_000));
    let found = text_problem(&deep).await;
    assert!(
        found.contains("s.textproto:2:714: nested deeper than 64 levels"),
        "{found}"
    );
}

#[tokio::test]
async fn binary_files_are_one_message() {
    let dir = tempfile::tempdir().unwrap();
    let read = |content: Vec<u8>| {
        let source = file(
            dir.path(),
            "web.binpb",
            content,
            Files::<OneFile<Binary<Schemed>>>::new,
        );
        async move { source.read().await }
    };
    let reading = read(web().encode_to_vec()).await.unwrap();
    assert_eq!(
        reading.documents[0].read::<Proto<Service>>().unwrap().0,
        web()
    );
    // All of it is white space in ASCII, but it is not empty.
    let spaces = Service {
        name: " ".repeat(9),
        replicas: 0,
    }
    .encode_to_vec();
    assert_eq!(spaces.trim_ascii(), b"");
    assert_eq!(read(spaces).await.unwrap().documents.len(), 1);
    let mut cut = web().encode_to_vec();
    cut.truncate(4);
    for (content, expected) in [
        (cut, "web.binpb: not a whole `shop.v1.Service`"),
        (vec![0x98, 0x06, 0x01], "has the unknown field number 99"),
        (vec![], "the file is empty"),
        ([0x2a, 0x80].repeat(200), "not a whole"),
    ] {
        let found = read(content).await.unwrap_err().to_string();
        assert!(found.contains(expected), "{expected} in {found}");
    }
}

#[tokio::test]
async fn delimited_files_are_many_messages_and_a_cut_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let services = [web(), Service::default(), web()];
    let all: Vec<u8> = services
        .iter()
        .flat_map(Message::encode_length_delimited_to_vec)
        .collect();
    let read = |content: &[u8]| {
        let source = file(
            dir.path(),
            "all.binpbs",
            content,
            Files::<OneFile<Delimited<Schemed>>>::new,
        );
        async move { source.read().await }
    };
    let reading = read(&all).await.unwrap();
    let named: Vec<String> = reading
        .documents
        .iter()
        .map(|document| document.name())
        .collect();
    assert_eq!(named, ["all.binpbs#0", "all.binpbs#1", "all.binpbs#2"]);
    for cut in 1..all.len() {
        match read(&all[..cut]).await {
            Ok(reading) => {
                // Cut between two messages.
                let lengths = services
                    .iter()
                    .map(|service| service.encode_length_delimited_to_vec().len());
                let whole = lengths.take(reading.documents.len()).sum::<usize>();
                assert_eq!(whole, cut);
            }
            Err(problems) => assert!(
                problems.to_string().contains("may be cut off"),
                "{problems}"
            ),
        }
    }
}

#[tokio::test]
async fn r43_text_files_keep_the_laws_of_sources() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &'static str, content: &'static str| {
        let path = dir.path().join(name);
        move || std::fs::write(path, content).unwrap()
    };
    write("a.textproto", "name: 'a'")();
    let source = Files::<Folder<Text<Schemed>>>::new(dir.path());
    let changes = [
        write("b.textproto", "name: 'b'"),
        write("a.textproto", "name: 'a' replicas: 2"),
        write("a.textproto", "# a comment\nname: 'a' replicas: 2"),
    ];
    conformance::source(&source, changes).await.unwrap();
}

#[test]
fn descriptors_come_from_files_and_sets() {
    let dir = protos(PROTO);
    let set = dir.path().join("set.binpb");
    let encoded = PROTOS.pool().encode_to_vec();
    std::fs::write(&set, &encoded).unwrap();
    let read = Descriptors::read(&set).unwrap();
    assert_eq!(read.message("shop.v1.Limits").unwrap().fields().len(), 1);
    let problem = Descriptors::decode(&encoded[..encoded.len() - 3])
        .unwrap_err()
        .to_string();
    assert!(problem.contains("FileDescriptorSet"), "{problem}");
    let missing = Descriptors::read(dir.path().join("missing"))
        .unwrap_err()
        .to_string();
    assert!(missing.contains("/missing: No such file"), "{missing}");
}

#[test]
fn wrong_proto_files_are_problems_with_line_and_column() {
    let compile = |service: &str| {
        let dir = protos(service);
        Descriptors::compile([dir.path()], ["shop/v1/service.proto"])
            .unwrap_err()
            .to_string()
    };
    for (service, expected) in [
        (
            "syntax = \"proto3\";\nmessage A { strin name = 1; }",
            "shop/v1/service.proto:2:13: ",
        ),
        (
            "syntax = \"proto3\";\nmessage A {\n",
            "shop/v1/service.proto: expected a message field",
        ),
        (
            "syntax = \"proto3\";\nimport \"no.proto\";",
            "shop/v1/service.proto:2:1: import 'no.proto' not found",
        ),
    ] {
        let found = compile(service);
        assert!(found.starts_with(expected), "{expected} in {found}");
        assert_eq!(found.matches("service.proto").count(), 1, "{found}");
    }
}
