use super::*;

fn members() -> [Member; 1] {
    [Member {
        name: "crate-a".into(),
        folder: "a".into(),
        ..Member::default()
    }]
}

fn figures(files: &[(&str, String)]) -> Figures {
    let file = |(path, text): &(&str, String)| File {
        path: (*path).into(),
        text: text.clone(),
    };
    let tree = Tree {
        root: "/".into(),
        files: files.iter().map(file).collect(),
    };
    let mut figures = measure(&tree, &members());
    figures.retain(|_, section| !section.is_empty());
    figures
}

/// Asserts that the only figure is `figure`, in this section under this key.
fn only(files: &[(&str, String)], section: &str, key: &str, figure: usize) {
    let key = BTreeMap::from([(key.to_owned(), figure)]);
    let wanted = Figures::from([(section.to_owned(), key)]);
    assert_eq!(figures(files), wanted);
}

fn fields(number: usize) -> String {
    (0..number).map(|n| format!("f{n}: u8, ")).collect()
}

#[test]
fn more_than_15_fields_of_a_struct_or_a_variant_are_counted() {
    let text = |number| format!("struct Kernel {{ {} }}", fields(number));
    only(
        &[("a/src/lib.rs", text(16))],
        "fields",
        "crate-a::Kernel",
        16,
    );
    let variant = format!("enum Phase {{ Idle, Runs {{ {} }} }}", fields(17));
    only(
        &[("a/src/lib.rs", variant)],
        "fields",
        "crate-a::Phase::Runs",
        17,
    );
    assert_eq!(figures(&[("a/src/lib.rs", text(15))]), Figures::new());
    assert_eq!(figures(&[("a/src/tests.rs", text(16))]), Figures::new());
    let in_tests = format!("#[cfg(test)] mod tests {{ {} }}", text(16));
    assert_eq!(figures(&[("a/src/lib.rs", in_tests)]), Figures::new());
}

/// An inherent impl of `Kernel` with `code` lines of code, and as many of comments.
fn kernel(code: usize) -> String {
    let method = "    /// Does its work.\n    fn f() {}\n\n".repeat(code - 2);
    format!("impl Kernel {{\n{method}}}\n")
}

#[test]
fn impls_of_one_type_are_summed_over_the_files_of_a_crate() {
    let definition = |name: &str| format!("struct {name};\n");
    let files = [
        ("a/src/kernel/mod.rs", definition("Kernel") + &kernel(200)),
        ("a/src/kernel/push.rs", kernel(201)),
    ];
    only(&files, "lines", "crate-a::Kernel", 401);
    let files = [
        ("a/src/kernel/mod.rs", definition("Kernel") + &kernel(200)),
        ("a/src/kernel/push.rs", kernel(200)),
        ("a/src/other/mod.rs", definition("Kernel") + &kernel(300)),
        (
            "a/src/kernel/display.rs",
            kernel(300).replace("impl", "impl Display for"),
        ),
    ];
    assert_eq!(figures(&files), Figures::new());
}

#[test]
fn words_are_counted_in_comments_and_in_the_readme() {
    // Put together here, so that this file does not count them.
    let text = format!(
        "let {0} = \"{0}\"; // The {0} of that\n/// {1} the caller knows.\nfn {0}_at() {{}}\n",
        "wha".to_owned() + "t",
        "whi".to_owned() + "ch"
    );
    only(&[("a/src/lib.rs", text.clone())], "what", "crate-a", 2);
    only(&[("a/tests/all.rs", text)], "what", "crate-a", 2);
    let text = WORDS.map(|word| format!("{}.\n", word.to_uppercase()));
    let text = text.concat();
    only(&[("a/README.md", text.clone())], "words", "crate-a", 5);
    assert_eq!(figures(&[("a/src/lib.rs", text.clone())]), Figures::new());
    assert_eq!(figures(&[("docs/a.md", text)]), Figures::new());
    let address = "let address = \"https://told\"; // a_word, wordy, keyword";
    assert_eq!(figures(&[("a/src/lib.rs", address.into())]), Figures::new());
}
