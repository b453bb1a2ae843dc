//! Look-ups of a call: answers them from the assets that earlier stages made, and remembers what was asked.

use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

use plugin_sdk::{Problem, generate::Upstream};
use prodspec_model::{Asset, AssetId};

/// Returns the version of an asset that a stage gets.
type Before<'r> = Box<dyn Fn(&AssetId) -> Option<&'r Asset> + 'r>;

/// The look-ups of one call of a stage.
pub(super) struct LookUps<'r> {
    before: Before<'r>,
    /// The types that the generator declares.
    finds: &'r [Arc<str>],
    asked: RefCell<BTreeSet<AssetId>>,
    /// The types of assets that were there, but are not declared.
    undeclared: RefCell<BTreeSet<String>>,
}

impl<'r> LookUps<'r> {
    pub(super) fn new(
        before: impl Fn(&AssetId) -> Option<&'r Asset> + 'r,
        finds: &'r [Arc<str>],
    ) -> Self {
        Self {
            before: Box::new(before),
            finds,
            asked: RefCell::default(),
            undeclared: RefCell::default(),
        }
    }

    /// The ids of the assets that the call looked up.
    pub(super) fn asked(self) -> BTreeSet<AssetId> {
        self.asked.into_inner()
    }

    /// The problems of look-ups of types that the generator does not declare.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let undeclared = self.undeclared.borrow();
        let problem = |type_name: &String| {
            let message =
                format!("looks up a {type_name} without declaring it; add `.finds` to its info");
            Problem::new(message)
        };
        undeclared.iter().map(problem).collect()
    }
}

impl Upstream for LookUps<'_> {
    fn find(&self, id: &AssetId) -> Option<&Asset> {
        self.asked.borrow_mut().insert(id.clone());
        let asset = (self.before)(id)?;
        if is_one_of(asset, self.finds) {
            return Some(asset);
        }
        let type_name = asset.type_str().to_owned();
        self.undeclared.borrow_mut().insert(type_name);
        None
    }
}

/// Whether the type of an asset is among `types`.
pub(super) fn is_one_of(asset: &Asset, types: &[Arc<str>]) -> bool {
    types.iter().any(|wanted| **wanted == *asset.type_str())
}
