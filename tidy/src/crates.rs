//! The one-way rule: which crates may depend on which, and which dependencies stay out of the model, the SDK and the
//! engines.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    process::Command,
};

use serde_json::Value;

const MODEL: &str = "prodspec-model";
const SDK: &str = "plugin-sdk";
const STORE: &str = "control-plane-store";
const RUNTIME: &str = "control-plane-runtime";

/// Engines share the SDK's traits, the store's records and `control-plane`; they never depend on each other.
const ENGINES: [&str; 5] = [
    "prodspec-gen",
    "prodspec-serve",
    "annealing-enforcer",
    "annealing-strategist",
    "annealing-workflow",
];
const BACKENDS: [&str; 2] = ["control-plane-store-sqlite", "control-plane-store-postgres"];
const PROGRAMS: [&str; 9] = [
    "anneal",
    "embedded",
    "testbed",
    "shakespeare",
    "tour",
    "web-service",
    "simulation",
    "benches",
    "fuzz",
];

/// Crates for foreign technologies. A plugin that is a source of truth may use the formats and trees of generation.
const PLUGINS: [&str; 6] = [
    "plugins-archive",
    "plugins-git",
    "plugins-kubernetes",
    "plugins-postgres",
    "plugins-prometheus",
    "plugins-protobuf",
];

/// Servers and tools for tests, which are built from no other crate of ours and used in tests and benches only.
const TESTING: [&str; 2] = ["testing-postgres", "testing-programs"];

/// Crates that [`is_pure`] crates must not be built from. An entry also covers names that begin with it and a `-`.
const HEAVY: [&str; 16] = [
    "rusqlite",
    "libsqlite3-sys",
    "sqlx",
    "tokio-postgres",
    "redb",
    "tonic",
    "grpc",
    "hyper",
    "h2",
    "http",
    "axum",
    "reqwest",
    "tower-http",
    "kube",
    "k8s-openapi",
    "gix",
];

/// One crate of the workspace, as `cargo metadata` reports it.
#[derive(Debug, Clone, Default)]
pub struct Member {
    /// Name of the crate in its manifest.
    pub name: String,
    /// Folder of the crate, relative to the repository's root.
    pub folder: String,
    /// First file of each target, relative to the repository's root.
    pub targets: Vec<String>,
    /// Names of the crate's normal and build dependencies.
    pub built_from: Vec<String>,
    /// Names of the crate's dev-dependencies, which only tests use.
    pub tested_with: Vec<String>,
    /// Features of tokio that every user of the crate gets.
    pub tokio: Vec<String>,
    /// Whether the crate may be published: its manifest does not have `publish = false`.
    pub published: bool,
    /// Whether one of the targets is a library.
    pub has_library: bool,
}

impl Member {
    /// Whether users build on the crate: it is published and has a library.
    pub fn is_library(&self) -> bool {
        self.published && self.has_library
    }
}

/// The crate that the file at `path` belongs to: the one with the deepest folder. `None` outside of all crates.
pub fn owner<'a>(members: &'a [Member], path: &str) -> Option<&'a Member> {
    let within = |member: &&Member| {
        let rest = path.strip_prefix(&*member.folder);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let owners = members.iter().filter(within);
    owners.max_by_key(|member| member.folder.len())
}

/// Reads the crates of this workspace with `cargo metadata`.
///
/// # Errors
/// When `cargo metadata` fails, or its output is not JSON.
pub fn members() -> Result<Vec<Member>, Box<dyn Error>> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let root = format!("{}/", text(&metadata, "workspace_root"));
    let packages = list(&metadata, "packages");
    Ok(packages.map(|package| member(package, &root)).collect())
}

/// Every crate whose folder does not follow from its name. A package is its path with dashes, under the family name
/// `control-plane` if it needs one; an example is named as its folder.
pub fn folders(members: &[Member]) -> Vec<String> {
    let problem = |member: &&Member| {
        let (name, folder) = (member.name.as_str(), member.folder.as_str());
        let path = folder.replace('/', "-");
        let family = name.strip_prefix("control-plane-") == Some(path.as_str());
        let example = folder.strip_prefix("examples/") == Some(name);
        name != path && !family && !example
    };
    let problems = members.iter().filter(problem);
    problems
        .map(|member| {
            let (name, folder) = (&member.name, &member.folder);
            format!("`{folder}` holds the package `{name}`: name the package after its path")
        })
        .collect()
}

fn member(package: &Value, root: &str) -> Member {
    let relative = |path: String| path.replace('\\', "/").replacen(root, "", 1);
    let named = |dev: bool| {
        list(package, "dependencies")
            .filter(|dependency| (text(dependency, "kind") == "dev") == dev)
            .map(|dependency| text(dependency, "name"))
            .collect()
    };
    Member {
        name: text(package, "name"),
        folder: relative(text(package, "manifest_path")).replace("/Cargo.toml", ""),
        targets: list(package, "targets")
            .map(|target| relative(text(target, "src_path")))
            .collect(),
        built_from: named(false),
        tested_with: named(true),
        tokio: list(package, "dependencies")
            .filter(|dependency| text(dependency, "name") == "tokio")
            .filter(|dependency| text(dependency, "kind") != "dev")
            .flat_map(|dependency| list(dependency, "features"))
            .filter_map(|feature| Some(feature.as_str()?.to_owned()))
            .collect(),
        // `null` permits all registries, an empty list none.
        published: package["publish"] != Value::Array(Vec::new()),
        has_library: list(package, "targets")
            .flat_map(|target| list(target, "kind"))
            .any(|kind| kind == "lib"),
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

/// Features of tokio that a library does not choose for its users.
const FOR_PROGRAMS: [&str; 4] = ["net", "process", "signal", "test-util"];

/// Lists the libraries that give their users features of tokio that only programs and tests need.
pub fn tokio_features(members: &[Member]) -> Vec<String> {
    let libraries = members.iter();
    let libraries = libraries.filter(|member| !PROGRAMS.contains(&&*member.name));
    let mut problems = Vec::new();
    for Member { name, tokio, .. } in libraries {
        for feature in tokio {
            if FOR_PROGRAMS.contains(&&**feature) {
                problems.push(format!(
                    "{name}: its users get tokio's `{feature}`; move it to [dev-dependencies]"
                ));
            }
        }
    }
    problems
}

/// Lists the dependencies between the workspace's crates that break the one-way rule.
pub fn edges(members: &[Member]) -> Vec<String> {
    let ours: BTreeSet<&str> = members.iter().map(|member| &*member.name).collect();
    let mut problems = Vec::new();
    for member in members {
        let from = &*member.name;
        let Some(rank) = rank(from) else {
            problems.push(format!(
                "{from}: is missing in the one-way rule; add it to tidy/src/crates.rs and to ARCHITECTURE.md"
            ));
            continue;
        };
        let inner = |to: &&String| ours.contains(&***to);
        for to in member.built_from.iter().filter(inner) {
            if !may_use(from, to) {
                problems.push(format!(
                    "{from} -> {to}: breaks the one-way rule; use {SDK}'s traits, {STORE}'s records or control-plane instead"
                ));
            }
        }
        for to in member.tested_with.iter().filter(inner) {
            let itself = from == to; // a crate may enable its own features for its tests
            if !itself && self::rank(to).is_none_or(|to| to >= rank) {
                problems.push(format!(
                    "{from} -> {to} in tests: tests may use lower crates only; move the test to control-plane or simulation"
                ));
            }
        }
    }
    problems
}

/// Rank of a crate in the one-way rule; `None` for an unlisted crate. Tests may use crates of a lower rank.
fn rank(name: &str) -> Option<u8> {
    Some(match name {
        "tidy" | "testing-programs" | MODEL => 0,
        SDK => 1,
        name if TESTING.contains(&name) => 1,
        RUNTIME => 2,
        STORE | "annealing-checks" => 3,
        name if BACKENDS.contains(&name) => 4,
        name if ENGINES.contains(&name) => 5,
        "control-plane" => 6,
        name if PLUGINS.contains(&name) => 6,
        "shakespeare" | "benches" => 8,
        name if PROGRAMS.contains(&name) => 7,
        _ => return None,
    })
}

/// Whether `from` may be built from `to`.
fn may_use(from: &str, to: &str) -> bool {
    let engine = ENGINES.contains(&to);
    match from {
        "benches" | "testing-postgres" if TESTING.contains(&to) => rank(to) < rank(from),
        _ if TESTING.contains(&to) => false,
        SDK => to == MODEL,
        STORE | RUNTIME | "annealing-checks" => [MODEL, SDK].contains(&to),
        _ if BACKENDS.contains(&from) => [MODEL, SDK, STORE].contains(&to),
        _ if ENGINES.contains(&from) => [MODEL, SDK, STORE, RUNTIME].contains(&to),
        _ if PLUGINS.contains(&from) => [MODEL, SDK, RUNTIME, "prodspec-gen"].contains(&to),
        "control-plane" => rank(to) < rank(from),
        "embedded" => engine || [MODEL, SDK, STORE, RUNTIME, "annealing-checks"].contains(&to),
        _ if PROGRAMS.contains(&from) => to != "tidy" && rank(to) < rank(from),
        _ => false,
    }
}

/// Whether a crate must not depend on databases, gRPC, HTTP, Kubernetes or Git, directly or indirectly.
fn is_pure(name: &str) -> bool {
    [MODEL, SDK, STORE, RUNTIME, "annealing-checks"].contains(&name) || ENGINES.contains(&name)
}

/// Lists the heavy crates that a pure crate is built from, each with its dependency path. `lock` is the text of
/// `Cargo.lock`.
///
/// # Errors
/// When `lock` is not valid TOML.
pub fn heavy(members: &[Member], lock: &str) -> Result<Vec<String>, toml::de::Error> {
    let lock: toml::Table = toml::from_str(lock)?;
    let mut needs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let packages = lock.get("package").and_then(toml::Value::as_array);
    for package in packages.into_iter().flatten() {
        let name = package.get("name").and_then(toml::Value::as_str);
        let needed = package.get("dependencies").and_then(toml::Value::as_array);
        let needed = needed.into_iter().flatten().filter_map(toml::Value::as_str);
        let names = needed.filter_map(|entry| entry.split(' ').next());
        needs
            .entry(name.unwrap_or_default())
            .or_default()
            .extend(names);
    }
    // The lock file mixes dev-dependencies with the others; for the workspace's crates the manifests separate them.
    for member in members {
        let built_from = member.built_from.iter().map(String::as_str).collect();
        needs.insert(&member.name, built_from);
    }
    let pure = members.iter().filter(|member| is_pure(&member.name));
    Ok(pure.flat_map(|member| ways(&member.name, &needs)).collect())
}

fn ways(start: &str, needs: &BTreeMap<&str, Vec<&str>>) -> Vec<String> {
    let mut seen = BTreeSet::from([start]);
    let mut waiting = vec![vec![start]];
    let mut found = Vec::new();
    while let Some(way) = waiting.pop() {
        let last = way.last().copied().unwrap_or(start);
        for next in needs.get(last).into_iter().flatten() {
            if !seen.insert(next) {
                continue;
            }
            let way = [&way[..], &[next]].concat();
            if is_heavy(next) {
                let way = way.join(" -> ");
                found.push(format!(
                    "{way}: move this dependency into a backend, a plugin or a program"
                ));
            } else {
                waiting.push(way);
            }
        }
    }
    found
}

fn is_heavy(name: &str) -> bool {
    HEAVY.iter().any(|heavy| {
        let rest = name.strip_prefix(heavy);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, built_from: &[&str], tested_with: &[&str]) -> Member {
        let own = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Member {
            name: name.into(),
            built_from: own(built_from),
            tested_with: own(tested_with),
            ..Member::default()
        }
    }

    fn workspace(changed: Member) -> Vec<Member> {
        let others = [
            member("prodspec-model", &["serde"], &[]),
            member("plugin-sdk", &["prodspec-model"], &["plugin-sdk"]),
            member(
                "control-plane-store",
                &["plugin-sdk"],
                &["control-plane-runtime"],
            ),
            member("control-plane-runtime", &["plugin-sdk"], &[]),
            member(
                "control-plane-store-sqlite",
                &["control-plane-store", "rusqlite"],
                &[],
            ),
            member(
                "prodspec-gen",
                &["control-plane-store"],
                &["control-plane-store-sqlite"],
            ),
            member("annealing-enforcer", &["control-plane-runtime"], &[]),
            member(
                "control-plane",
                &["annealing-enforcer", "prodspec-gen"],
                &[],
            ),
            member("embedded", &["annealing-enforcer", "prodspec-gen"], &[]),
            member("plugins-git", &["prodspec-gen", "gix"], &[]),
            member("testing-postgres", &["tempfile"], &[]),
            member("plugins-postgres", &["prodspec-gen"], &["testing-postgres"]),
            member(
                "benches",
                &["control-plane", "kube", "testing-postgres"],
                &[],
            ),
        ];
        let kept = others
            .into_iter()
            .filter(|other| other.name != changed.name);
        kept.chain([changed.clone()]).collect()
    }

    #[test]
    fn allowed_edges_give_no_problem() {
        let as_planned = workspace(member("tidy", &["syn"], &[]));
        assert_eq!(edges(&as_planned), [""; 0]);
    }

    #[test]
    fn edges_against_the_one_way_rule_are_found() {
        let wrong = [
            member("prodspec-gen", &["annealing-enforcer"], &[]),
            member("prodspec-gen", &[], &["annealing-enforcer"]),
            member("prodspec-model", &["plugin-sdk"], &[]),
            member("control-plane-runtime", &["control-plane-store"], &[]),
            member("control-plane-store", &[], &["control-plane-store-sqlite"]),
            member("annealing-enforcer", &["control-plane-store-sqlite"], &[]),
            member("embedded", &["control-plane"], &[]),
            member("plugins-git", &["annealing-enforcer"], &[]),
            member("control-plane", &["plugins-git"], &[]),
            member("control-plane", &["testing-postgres"], &[]),
            member("unheard-of", &[], &[]),
        ];
        for wrong in wrong {
            let name = wrong.name.clone();
            let found = edges(&workspace(wrong));
            assert!(found.len() == 1 && found[0].starts_with(&name), "{found:?}");
        }
    }

    #[test]
    fn indirect_heavy_dependencies_are_found() {
        let lock = r#"
            [[package]]
            name = "nice"
            version = "1.0.0"
            dependencies = ["hyper-util 0.1.0"]
            [[package]]
            name = "hyper-util"
            version = "0.1.0"
        "#;
        let members = workspace(member("plugin-sdk", &["nice"], &[]));
        let found = heavy(&members, lock).unwrap();
        assert!(
            found
                .iter()
                .any(|way| way.starts_with("plugin-sdk -> nice -> hyper-util:")),
            "{found:?}"
        );
        let fine = workspace(member("plugin-sdk", &[], &["nice"]));
        assert_eq!(heavy(&fine, lock).unwrap(), [""; 0]);
    }
}
