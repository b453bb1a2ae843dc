//! The manifest, and the simulated operator who edits it.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use crate::{ASSETS, draw::Draw, production::Production};

/// File name of the manifest.
pub(crate) const MANIFEST: &str = "manifest.yaml";

/// The intent: a version of each asset.
pub(crate) struct Intent {
    dir: PathBuf,
    pub(crate) versions: BTreeMap<String, u64>,
    /// Newest version used so far. Each edit uses a new one.
    newest: u64,
    /// Number of asset names used so far.
    names: u64,
}

impl Intent {
    /// Creates and saves the first manifest.
    pub(crate) fn new(dir: &Path, production: &Production) -> Self {
        let mut intent = Self {
            dir: dir.to_owned(),
            versions: BTreeMap::new(),
            newest: 0,
            names: 0,
        };
        (0..ASSETS).for_each(|_| intent.add());
        intent.save(production);
        intent
    }

    fn add(&mut self) {
        self.versions.insert(format!("a{:04}", self.names), 0);
        self.names += 1;
    }

    /// Gives some assets new versions. Sometimes adds an asset, sometimes removes one, which becomes an orphan.
    pub(crate) fn edit(&mut self, draw: &mut Draw, production: &Production) {
        let names: Vec<String> = self.versions.keys().cloned().collect();
        for _ in 0..=draw.below(20) {
            self.newest += 1;
            self.versions.insert(draw.of(&names), self.newest);
        }
        if draw.one_in(4) {
            self.add();
        }
        if draw.one_in(4) {
            self.versions.remove(&draw.of(&names));
        }
        self.save(production);
    }

    fn save(&self, production: &Production) {
        production.intend(&self.versions);
        let mut text = String::new();
        for (asset, version) in &self.versions {
            writeln!(text, "{asset}: {version}").unwrap();
        }
        let new = self.dir.join("manifest.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.dir.join(MANIFEST)).unwrap();
    }
}
