//! The measures behind the ratchets: fields per struct, lines per type, and two groups of words per crate.
//!
//! [`crate::figures`] stores and compares the figures; this module only counts.

use std::collections::BTreeMap;

use syn::{spanned::Spanned, visit::Visit};

use crate::{
    code::only_in_tests,
    crates::{self, Member},
    figures::{Figures, Section},
    tree::{File, Tree},
};

/// Sections of the stored figures, in their order.
pub const SECTIONS: [Section; 4] = [
    Section {
        name: "fields",
        unit: "Fields per struct or variant, without those of tests",
        limit: 15,
        advice: "move a part into a type of its own, or the state of one phase into the variant of that phase",
    },
    Section {
        name: "lines",
        unit: "Lines per type: all its inherent impls in one crate, without tests, comments and empty lines",
        limit: 400,
        advice: "move data with its methods into a type of its own",
    },
    Section {
        name: "what",
        unit: "\"what\" and \"that which\" per crate, in comments of all its Rust files and in its README.md",
        limit: 0,
        advice: "write the noun: content, reason, command, ...",
    },
    Section {
        name: "words",
        unit: "\"word\", \"said\", \"told\", \"heard\" and \"asked\" per crate, in the same texts",
        limit: 0,
        advice: "write the term: command, event, answer, reports, requests, ...",
    },
];

/// Words of the section `words`.
const WORDS: [&str; 5] = ["word", "said", "told", "heard", "asked"];

/// Counts the figures of all crates that are over the limits of their sections.
pub fn measure(tree: &Tree, members: &[Member]) -> Figures {
    let mut by_crate: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut types: BTreeMap<&str, Types> = BTreeMap::new();
    for file in &tree.files {
        let Some(Member { name, folder, .. }) = crates::owner(members, &file.path) else {
            continue;
        };
        let rust = file.path.ends_with(".rs");
        if rust || file.path == format!("{folder}/README.md") {
            let (what, words) = count(texts(&file.text, rust));
            let sums = by_crate.entry(name).or_default();
            *sums = (sums.0 + what, sums.1 + words);
        }
        if rust && !file.is_test() {
            types.entry(name).or_default().add(file);
        }
    }
    let (mut fields, mut lines) = (BTreeMap::new(), BTreeMap::new());
    for (name, types) in types {
        let key = |of: &str| format!("{name}::{of}");
        fields.extend(types.fields.iter().map(|(of, fields)| (key(of), *fields)));
        lines.extend(
            types
                .lines()
                .into_iter()
                .map(|(of, lines)| (key(of), lines)),
        );
    }
    let (mut what, mut words) = (BTreeMap::new(), BTreeMap::new());
    for (name, sums) in by_crate {
        what.insert(name.to_owned(), sums.0);
        words.insert(name.to_owned(), sums.1);
    }
    let mut figures = Figures::new();
    for (Section { name, limit, .. }, mut all) in
        SECTIONS.into_iter().zip([fields, lines, what, words])
    {
        all.retain(|_, figure| *figure > limit);
        figures.insert(name.to_owned(), all);
    }
    figures
}

/// The comments of a Rust file, or all lines of another text. A comment begins with `//` at the front of a line or after
/// a space, so that addresses in literals are none.
fn texts(text: &str, rust: bool) -> impl Iterator<Item = &str> {
    text.lines().filter_map(move |line| {
        if !rust {
            return Some(line);
        }
        let begins = |at: usize| at == 0 || line[..at].ends_with(char::is_whitespace);
        let mut slashes = line.match_indices("//").map(|(at, _)| at);
        slashes.find(|at| begins(*at)).map(|at| &line[at..])
    })
}

/// Occurrences of the section `what` and of the section `words` in the lines of one file. An identifier with `_` is one
/// word. "that which" may stand on two lines.
fn count<'a>(lines: impl Iterator<Item = &'a str>) -> (usize, usize) {
    let (mut what, mut words) = (0, 0);
    let mut before = String::new();
    for line in lines {
        for word in line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            if word.is_empty() {
                continue;
            }
            let word = word.to_ascii_lowercase();
            let that_which = before == "that" && word == "which";
            what += usize::from(word == "what" || that_which);
            words += usize::from(WORDS.contains(&&*word));
            before = word;
        }
    }
    (what, words)
}

/// Sizes of the types of one crate.
#[derive(Default)]
struct Types {
    /// Number of fields by name of the struct or `Enum::Variant`. Of several with one name, the greatest number.
    fields: BTreeMap<String, usize>,
    /// Paths of the files that define a type of this name.
    defined: BTreeMap<String, Vec<String>>,
    /// Name of the type, path of the file and number of lines of each inherent impl.
    impls: Vec<(String, String, usize)>,
}

impl Types {
    fn add(&mut self, file: &File) {
        // Another rule reports a file that cannot be parsed.
        let Ok(syntax) = syn::parse_file(&file.text) else {
            return;
        };
        let lines: Vec<bool> = file.text.lines().map(is_code).collect();
        let mut visitor = Visitor {
            types: self,
            path: &file.path,
            lines: &lines,
        };
        visitor.visit_file(&syntax);
    }

    /// Lines of inherent impls by name of the type. Different types of one name are counted apart: an impl belongs to the
    /// type whose file is nearest. Of several with one name, the greatest number.
    fn lines(&self) -> BTreeMap<&str, usize> {
        let mut by_type: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (name, path, lines) in &self.impls {
            let nearest = self.defined.get(name).into_iter().flatten();
            let nearest = nearest.max_by_key(|defined| shared(defined, path));
            let defined = nearest.map_or("", String::as_str);
            *by_type.entry((name, defined)).or_default() += lines;
        }
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        for ((name, _), lines) in by_type {
            let most = by_name.entry(name).or_default();
            *most = lines.max(*most);
        }
        by_name
    }
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// Number of folders and modules that two files share. `a/mod.rs` is the module `a`.
fn shared(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|path| {
        let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/')
    });
    a.zip(b).take_while(|(a, b)| a == b).count()
}

struct Visitor<'a> {
    types: &'a mut Types,
    path: &'a str,
    /// Whether a line has code, by number of the line from 0.
    lines: &'a [bool],
}

impl Visitor<'_> {
    fn fields(&mut self, name: String, fields: &syn::Fields) {
        let most = self.types.fields.entry(name).or_default();
        *most = fields.len().max(*most);
    }

    fn defined(&mut self, name: &syn::Ident) {
        let files = self.types.defined.entry(name.to_string()).or_default();
        files.push(self.path.to_owned());
    }
}

impl<'a> Visit<'a> for Visitor<'_> {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !item.attrs.iter().any(only_in_tests) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.defined(&item.ident);
        self.fields(item.ident.to_string(), &item.fields);
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.defined(&item.ident);
        for variant in &item.variants {
            let name = format!("{}::{}", item.ident, variant.ident);
            self.fields(name, &variant.fields);
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let inherent = item.trait_.is_none() && !item.attrs.iter().any(only_in_tests);
        if let (true, syn::Type::Path(of)) = (inherent, &*item.self_ty)
            && let Some(of) = of.path.segments.last()
        {
            let first = item.impl_token.span().start().line - 1;
            let last = item.brace_token.span.close().end().line;
            let lines = self.lines[first..last].iter().filter(|code| **code).count();
            let name = of.ident.to_string();
            self.types.impls.push((name, self.path.to_owned(), lines));
        }
    }
}

#[cfg(test)]
mod tests;
