//! The one-way rule: which crate may depend on which, and what stays out of the model, the SDK and the engines.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    process::Command,
};

use serde_json::Value;

const MODEL: &str = "prodspec-model";
const SDK: &str = "plugin-sdk";
const STORE: &str = "plane-store";
const RUNTIME: &str = "plane-runtime";

/// Engines meet in the SDK's traits, in the store's records and in `control-plane`, never in each other.
const ENGINES: [&str; 5] = [
    "prodspec-gen",
    "prodspec-serve",
    "annealing-enforcer",
    "annealing-strategist",
    "annealing-workflow",
];
const BACKENDS: [&str; 2] = ["plane-store-sqlite", "plane-store-postgres"];
const PROGRAMS: [&str; 5] = ["anneal", "embedded", "shakespeare", "simulation", "benches"];

/// Names, or beginnings of names, of crates that stay out of [`is_pure`] crates.
const HEAVY: [&str; 15] = [
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
];

/// One crate of the workspace, as `cargo metadata` tells it.
#[derive(Debug, Clone, Default)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its folder, relative to the root.
    pub folder: String,
    /// The first file of each target, relative to the root.
    pub targets: Vec<String>,
    /// Names of the crates it is built from.
    pub built_from: Vec<String>,
    /// Names of the crates its tests are built from.
    pub tested_with: Vec<String>,
}

/// The crates of this workspace.
///
/// # Errors
/// When `cargo metadata` fails.
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
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

/// Edges between the workspace's crates that point the wrong way.
pub fn edges(members: &[Member]) -> Vec<String> {
    let ours: BTreeSet<&str> = members.iter().map(|member| &*member.name).collect();
    let mut problems = Vec::new();
    for member in members {
        let from = &*member.name;
        let Some(rank) = rank(from) else {
            problems.push(format!(
                "{from}: has no place in the one-way rule; give it one in tidy/src/crates.rs and in ARCHITECTURE.md"
            ));
            continue;
        };
        let inner = |to: &&String| ours.contains(&***to);
        for to in member.built_from.iter().filter(inner) {
            if !may_use(from, to) {
                problems.push(format!(
                    "{from} -> {to}: against the one-way rule; meet in {SDK}'s traits, in {STORE}'s records or in control-plane"
                ));
            }
        }
        for to in member.tested_with.iter().filter(inner) {
            let itself = from == to; // to switch on a feature of its own for its tests
            if !itself && self::rank(to).is_none_or(|to| to >= rank) {
                problems.push(format!(
                    "{from} -> {to} in tests: tests look downwards only; put this one into control-plane or simulation"
                ));
            }
        }
    }
    problems
}

/// How high a crate stands. Tests may use what stands lower.
fn rank(name: &str) -> Option<u8> {
    Some(match name {
        "tidy" | MODEL => 0,
        SDK => 1,
        RUNTIME => 2,
        STORE | "annealing-checks" => 3,
        name if BACKENDS.contains(&name) => 4,
        name if ENGINES.contains(&name) => 5,
        "control-plane" => 6,
        "benches" => 8,
        name if PROGRAMS.contains(&name) => 7,
        _ => return None,
    })
}

/// Whether `from` may be built from `to`.
fn may_use(from: &str, to: &str) -> bool {
    let engine = ENGINES.contains(&to);
    match from {
        SDK => to == MODEL,
        STORE | RUNTIME | "annealing-checks" => [MODEL, SDK].contains(&to),
        _ if BACKENDS.contains(&from) => [MODEL, SDK, STORE].contains(&to),
        _ if ENGINES.contains(&from) => [MODEL, SDK, STORE, RUNTIME].contains(&to),
        "control-plane" => rank(to) < rank(from),
        "embedded" => engine || [MODEL, SDK, STORE, RUNTIME, "annealing-checks"].contains(&to),
        _ if PROGRAMS.contains(&from) => to != "tidy" && rank(to) < rank(from),
        _ => false,
    }
}

/// Whether databases, gRPC, HTTP and Kubernetes stay out of the crate, however indirectly.
fn is_pure(name: &str) -> bool {
    [MODEL, SDK, STORE, RUNTIME, "annealing-checks"].contains(&name) || ENGINES.contains(&name)
}

/// Heavy crates that a pure crate is built from, with the way they come in. `lock` is the text of `Cargo.lock`.
///
/// # Errors
/// When `lock` is no TOML.
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
    // The lock file does not tell tests from builds; for our own crates the manifests do.
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
                    "{way}: belongs into a backend, a plugin or a program"
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
            member("plane-store", &["plugin-sdk"], &["plane-runtime"]),
            member("plane-runtime", &["plugin-sdk"], &[]),
            member("plane-store-sqlite", &["plane-store", "rusqlite"], &[]),
            member("prodspec-gen", &["plane-store"], &["plane-store-sqlite"]),
            member("annealing-enforcer", &["plane-runtime"], &[]),
            member(
                "control-plane",
                &["annealing-enforcer", "prodspec-gen"],
                &[],
            ),
            member("embedded", &["annealing-enforcer", "prodspec-gen"], &[]),
            member("benches", &["control-plane", "kube"], &[]),
        ];
        let kept = others
            .into_iter()
            .filter(|other| other.name != changed.name);
        kept.chain([changed.clone()]).collect()
    }

    #[test]
    fn the_allowed_edges_are_no_problem() {
        let as_planned = workspace(member("tidy", &["syn"], &[]));
        assert_eq!(edges(&as_planned), [""; 0]);
    }

    #[test]
    fn edges_that_point_the_wrong_way_are_found() {
        let wrong = [
            member("prodspec-gen", &["annealing-enforcer"], &[]),
            member("prodspec-gen", &[], &["annealing-enforcer"]),
            member("prodspec-model", &["plugin-sdk"], &[]),
            member("plane-runtime", &["plane-store"], &[]),
            member("plane-store", &[], &["plane-store-sqlite"]),
            member("annealing-enforcer", &["plane-store-sqlite"], &[]),
            member("embedded", &["control-plane"], &[]),
            member("unheard-of", &[], &[]),
        ];
        for wrong in wrong {
            let name = wrong.name.clone();
            let found = edges(&workspace(wrong));
            assert!(found.len() == 1 && found[0].starts_with(&name), "{found:?}");
        }
    }

    #[test]
    fn heavy_crates_are_found_however_indirect() {
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
