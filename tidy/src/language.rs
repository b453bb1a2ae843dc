//! Rules about language: words that hide the actor, and public items that are documented in too few words.

use syn::{Attribute, Visibility, spanned::Spanned, visit::Visit};

use crate::{
    crates::{self, Member},
    tree::File,
};

/// The documentation of a public item has at least this many words.
const DOCUMENTED: usize = 5;

/// Every place where a text names no actor: comments, strings and identifiers alike.
pub fn actors(file: &File) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let words = line.split(|c: char| !c.is_ascii_alphabetic());
        for word in words.filter(|word| names_no_actor(word)) {
            problems.push(format!(
                "{}:{}: `{word}`: name the actor: caller, owner, operator, consumer, ...",
                file.path,
                at + 1
            ));
        }
    }
    problems
}

fn names_no_actor(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let body = word.strip_suffix("body").unwrap_or_default();
    let of_who = word.strip_prefix("who").unwrap_or_default();
    ["any", "every", "no", "some"].contains(&body) || ["ever", "m"].contains(&of_who)
}

/// Public items of a library that are documented in fewer than five words. Users read those of every crate for which
/// [`Member::is_library`] holds; tests, examples and benches of such a crate are not part of its library.
pub fn documentation(file: &File, members: &[Member]) -> Vec<String> {
    let owner = crates::owner(members, &file.path).filter(|member| member.is_library());
    let library = owner.is_some_and(|member| file.path[member.folder.len()..].starts_with("/src/"));
    if !library || file.is_test() {
        return Vec::new();
    }
    let Ok(syntax) = syn::parse_file(&file.text) else {
        return Vec::new();
    };
    let mut short = Short::default();
    short.visit_file(&syntax);
    let problem = |(line, name): (usize, String)| {
        format!(
            "{}:{line}: `{name}`: document it in {DOCUMENTED} words or more: purpose, units, defaults",
            file.path
        )
    };
    short.found.into_iter().map(problem).collect()
}

/// Public items that are documented too briefly, with their lines.
#[derive(Default)]
struct Short {
    found: Vec<(usize, String)>,
}

impl Short {
    fn look(&mut self, visibility: &Visibility, attributes: &[Attribute], name: &impl ToString) {
        if matches!(visibility, Visibility::Public(_)) {
            self.measure(attributes, name);
        }
    }

    fn measure(&mut self, attributes: &[Attribute], name: &impl ToString) {
        let words = attributes.iter().filter_map(doc);
        let words: usize = words.map(|text| text.split_whitespace().count()).sum();
        // An item without any is refused by the compiler, or hidden.
        if (1..DOCUMENTED).contains(&words) {
            let line = attributes.first().map_or(0, |it| it.span().start().line);
            self.found.push((line, name.to_string()));
        }
    }
}

/// The text of a line of documentation.
fn doc(attribute: &Attribute) -> Option<String> {
    let named = attribute.meta.require_name_value().ok()?;
    match &named.value {
        syn::Expr::Lit(literal) if named.path.is_ident("doc") => match &literal.lit {
            syn::Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

impl<'a> Visit<'a> for Short {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.look(&item.vis, &item.attrs, &item.sig.ident);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.look(&item.vis, &item.attrs, &item.sig.ident);
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.look(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.look(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_type(&mut self, item: &'a syn::ItemType) {
        self.look(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.look(&item.vis, &item.attrs, &item.ident);
        syn::visit::visit_item_struct(self, item);
    }

    fn visit_field(&mut self, field: &'a syn::Field) {
        let name = field.ident.as_ref().map_or("0".into(), |it| it.to_string());
        self.look(&field.vis, &field.attrs, &name);
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.look(&item.vis, &item.attrs, &item.ident);
        if matches!(item.vis, Visibility::Public(_)) {
            for variant in &item.variants {
                self.measure(&variant.attrs, &variant.ident);
                for field in &variant.fields {
                    let name = field.ident.as_ref().unwrap_or(&variant.ident);
                    self.measure(&field.attrs, name);
                }
            }
        }
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.look(&item.vis, &item.attrs, &item.ident);
        if matches!(item.vis, Visibility::Public(_)) {
            for method in &item.items {
                if let syn::TraitItem::Fn(method) = method {
                    self.measure(&method.attrs, &method.sig.ident);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
