use super::*;

fn file(path: &str, text: &str) -> File {
    File {
        path: path.into(),
        text: text.into(),
    }
}

/// Words that the rule refuses, put together here so that this file keeps it.
fn refused() -> [String; 6] {
    let [any, every, no, some] =
        ["any", "every", "no", "some"].map(|stem| format!("{stem}{}", "body"));
    [
        any,
        every,
        no,
        some,
        "who".to_owned() + "ever",
        "who".to_owned() + "m",
    ]
}

#[test]
fn words_that_name_no_actor_are_found_in_comments_strings_and_names() {
    for word in refused() {
        let mut capital = word.clone();
        capital[..1].make_ascii_uppercase();
        for text in [
            format!("// a lease that {word} holds"),
            format!("let why = \"{capital}'s lease\";"),
            format!("fn asked_by_{word}_twice() {{}}"),
        ] {
            let found = actors(&file("a/src/lib.rs", &text));
            assert_eq!(found.len(), 1, "{text}: {found:?}");
        }
    }
    let fine = "/// Who and why: the body of a command, homage included.";
    assert_eq!(actors(&file("a/src/lib.rs", fine)), [""; 0]);
}

#[test]
fn public_items_of_libraries_are_documented_in_five_words() {
    let member = |folder: &str, published: bool, has_library: bool| Member {
        folder: folder.into(),
        published,
        has_library,
        ..Member::default()
    };
    let members = [
        member("store", true, true),
        member("store/tool", true, false),
        member("simulation", false, true),
    ];
    let names = |path: &str, text: &str| {
        let found = documentation(&file(path, text), &members);
        let name = |problem: &String| problem.split('`').nth(1).unwrap_or_default().to_owned();
        found.iter().map(name).collect::<Vec<_>>()
    };
    let text = "
        /// Why.
        pub struct Short {
            /// When.
            pub at: u64,
            /// Private.
            hidden: u64,
        }
        /// One of two ways out.
        pub enum Way { /// Out. \n Out, /// Back to where it came from. \n Back }
        /// Asked for every push of it.
        pub trait Asks { /// Asks. \n fn ask(&self); }
        impl Short {
            /// Reads.
            pub fn read(&self) {}
            /// Writes.
            fn write(&self) {}
        }
        /// Private.
        struct Inner;
        /// Long enough, over
        /// two lines.
        pub const LIMIT: u64 = 1;
    ";
    let found = names("store/src/a.rs", text);
    assert_eq!(found, ["Short", "at", "Out", "ask", "read"]);
    for other in [
        "simulation/src/a.rs",
        "store/tool/src/a.rs",
        "store/src/tests.rs",
        "store/benches/a.rs",
        "a.rs",
    ] {
        assert_eq!(names(other, text), [""; 0], "{other}");
    }
}
