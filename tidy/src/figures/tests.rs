use super::*;

const SECTIONS: [Section; 2] = [
    Section {
        name: "fields",
        unit: "Fields per struct",
        limit: 15,
        advice: "split it",
    },
    Section {
        name: "lines",
        unit: "Lines per impl",
        limit: 0,
        advice: "split it",
    },
];

fn figures(fields: &[(&str, usize)]) -> Figures {
    let fields = fields.iter().map(|(key, n)| ((*key).into(), *n)).collect();
    BTreeMap::from([("fields".into(), fields)])
}

#[test]
fn rendered_figures_are_sorted_and_have_no_problem() {
    let present = figures(&[("b::Kernel", 20), ("a::Kernel", 16)]);
    let text = render(&SECTIONS, &present);
    let lines: Vec<_> = text.lines().skip(2).collect();
    assert_eq!(
        lines,
        [
            "",
            "# Fields per struct; listed above 15.",
            "[fields]",
            "\"a::Kernel\" = 16",
            "\"b::Kernel\" = 20",
            "",
            "# Lines per impl.",
            "[lines]"
        ]
    );
    assert_eq!(check(&SECTIONS, &present, &text), [""; 0]);
}

#[test]
fn each_change_of_a_figure_fails_with_the_line_to_put_in() {
    let stored = render(&SECTIONS, &figures(&[("a::Kernel", 20)]));
    let cases: [(&[_], _); 4] = [
        (
            &[("a::Kernel", 21)],
            "rose from 20 to 21: split it; only with a reason in the commit: `\"a::Kernel\" = 21`",
        ),
        (
            &[("a::Kernel", 19)],
            "lower the figure to 19: `\"a::Kernel\" = 19`",
        ),
        (&[], "remove the line `\"a::Kernel\" = 20`"),
        (
            &[("a::Kernel", 20), ("a::New", 16)],
            "`a::New` has 16, 15 are allowed: split it; only with a reason in the commit: `\"a::New\" = 16`",
        ),
    ];
    for (present, wanted) in cases {
        let found = check(&SECTIONS, &figures(present), &stored);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("tidy/figures.toml, [fields]: "));
        assert!(
            found[0].ends_with(wanted),
            "wanted {wanted}, found {found:?}"
        );
        assert!(found[1].ends_with(REWRITE), "{found:?}");
    }
}

#[test]
fn unsorted_and_unreadable_files_are_found() {
    let present = figures(&[("a::Kernel", 16), ("b::Kernel", 20)]);
    let unsorted = "[fields]\n\"b::Kernel\" = 20\n\"a::Kernel\" = 16\n";
    let found = check(&SECTIONS, &present, unsorted);
    assert!(
        found.len() == 1 && found[0].contains("not sorted"),
        "{found:?}"
    );
    let conflict = "[fields]\n<<<<<<< ours\n";
    let found = check(&SECTIONS, &present, conflict);
    assert!(
        found.len() == 1 && found[0].contains("cannot be parsed"),
        "{found:?}"
    );
}
