use super::*;
use crate::tree::File;

fn tree(files: &[(&str, &str)]) -> Tree {
    let file = |(path, text): &(&str, &str)| File {
        path: (*path).into(),
        text: (*text).into(),
    };
    Tree {
        root: env!("CARGO_MANIFEST_DIR").into(),
        files: files.iter().map(file).collect(),
    }
}

fn complete() -> (String, BTreeSet<String>) {
    let mut table = String::from("| rule | what | tests |\n|---|---|---|\n");
    let mut tests = BTreeSet::new();
    for name in rules().chain(INVARIANTS.map(str::to_owned)) {
        let test = format!("{}_holds", name.to_lowercase());
        table += &format!("| {name} | A `Word` in between. | `{test}` |\n");
        tests.insert(test);
    }
    (table, tests)
}

#[test]
fn a_complete_table_gives_no_problem() {
    let (table, tests) = complete();
    assert_eq!(guarded(&table, &tests), [""; 0]);
}

#[test]
fn an_unlisted_rule_is_found() {
    let (table, tests) = complete();
    for rule in ["R7", "R17", "R22"] {
        let found = guarded(
            &table.replace(&format!("| {rule} |"), "| another |"),
            &tests,
        );
        let missing = format!("ARCHITECTURE.md: list {rule} with its tests");
        assert_eq!(found, [missing]);
    }
}

#[test]
fn a_missing_test_or_one_with_a_wrong_number_is_found() {
    let (table, mut tests) = complete();
    tests.remove("r9_holds");
    let found = guarded(&table, &tests);
    assert!(
        found.len() == 1 && found[0].contains("no test `r9_holds`"),
        "{found:?}"
    );
    let found = guarded(&table.replace("`r9_holds`", "`r8_holds`"), &tests);
    assert!(
        found.len() == 1 && found[0].contains("begins with `r9_`"),
        "{found:?}"
    );
}

#[test]
fn a_row_without_a_test_or_with_two_is_found() {
    let (table, tests) = complete();
    for (instead, count) in [("", 0), ("`s3_holds`, `s4_holds`", 2)] {
        let found = guarded(&table.replace("`s3_holds`", instead), &tests);
        let expected =
            format!("ARCHITECTURE.md: S3: name one test, the one to read first; it names {count}");
        assert_eq!(found, [expected]);
    }
}

#[test]
fn the_code_map_names_existing_paths_and_every_crate() {
    let members = [Member {
        name: "one".into(),
        folder: "src".into(),
        ..Member::default()
    }];
    let check = |map: &str| code_map(map, &tree(&[]), &members);
    let good = "`no/where` before\n## Code map\n`src/` is `A/B` with `src/lib.rs`";
    assert_eq!(check(&good.replace("`A/B`", "it")), [""; 0]);
    assert_eq!(
        check(good),
        ["ARCHITECTURE.md: code map: `A/B` does not exist"]
    );
    let found = check("## Code map\n`src/lib.rs`\n## Later\n`src/`");
    assert_eq!(found, ["ARCHITECTURE.md: code map: say what `src/` is for"]);
    let long = format!("{good}{}", "\n".repeat(250)).replace("`A/B`", "it");
    assert!(check(&long)[0].contains("lines"), "a long page is refused");
}

#[test]
fn a_readme_without_the_commands_is_found() {
    assert_eq!(readme(&COMMANDS.join("\n")), [""; 0]);
    assert_eq!(readme("# Hello").len(), COMMANDS.len());
}

#[test]
fn private_paths_are_found_but_urls_are_not() {
    let home = ["", "home", "me"].join("/");
    let found = private_paths(&tree(&[("a.md", &format!("fine\nsee {home}/notes"))]));
    assert!(
        found.len() == 1 && found[0].starts_with("a.md:2"),
        "{found:?}"
    );
    let mine = private_paths(&tree(&[("a.md", env!("CARGO_MANIFEST_DIR"))]));
    assert_eq!(mine.len(), 1);
    let url = format!("https://example.org{home}/notes");
    assert_eq!(private_paths(&tree(&[("a.md", &url)])), [""; 0]);
}
