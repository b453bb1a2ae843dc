//! The assets of a rollout that a rule judges, and their roles.

use std::sync::Arc;

use plugin_sdk::{HealthRequest, Watched};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

/// The role of an asset in the rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The asset was updated and has settled.
    Updated,
    /// The asset is being updated and has not settled.
    UnderWay,
    /// The asset was not updated and may be affected by those that were.
    Neighbour,
}

/// Writes the setters of a rule with a field `scope`.
macro_rules! scope_setters {
    () => {
        /// Checks only assets of these types, such as `shakespeare.v1.FrontendJob`. Assets that do not have the metric
        /// would stay unknown for ever.
        pub fn only<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
            self.scope.only = Some(types.into_iter().map(Into::into).collect());
            self
        }

        /// Does not check neighbours of the updated assets.
        pub fn without_neighbours(mut self) -> Self {
            self.scope.neighbours = false;
            self
        }

        /// Does not check assets that are under way.
        pub fn settled_only(mut self) -> Self {
            self.scope.under_way = false;
            self
        }
    };
}
pub(super) use scope_setters;

/// The assets that a rule judges: those of some types, with or without neighbours and those under way.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// `None`: all types.
    pub(super) only: Option<Arc<[String]>>,
    pub(super) neighbours: bool,
    pub(super) under_way: bool,
}

impl Scope {
    /// Returns the assets to judge, with their roles, sorted by id.
    pub(super) fn of(&self, request: &HealthRequest) -> Vec<(Watched, Role)> {
        let all = [
            (Role::Updated, Some(&request.updated)),
            (
                Role::UnderWay,
                Some(&request.under_way).filter(|_| self.under_way),
            ),
            (
                Role::Neighbour,
                Some(&request.neighbours).filter(|_| self.neighbours),
            ),
        ];
        let all = all.into_iter().flat_map(|(role, assets)| {
            let assets = assets.into_iter().flatten();
            assets.map(move |watched| (watched, role))
        });
        let mut asked: Vec<(Watched, Role)> = all
            .filter(|(watched, _)| self.applies(request, &watched.asset))
            .map(|(watched, role)| (watched.clone(), role))
            .collect();
        asked.sort_by(|(one, _), (other, _)| one.asset.cmp(&other.asset));
        asked.dedup_by(|(later, _), (first, _)| later.asset == first.asset);
        asked
    }

    /// Whether the rule applies to the asset. It does if the asset cannot be read.
    fn applies(&self, request: &HealthRequest, asset: &AssetId) -> bool {
        let (Some(types), Some(asset)) = (&self.only, request.reader.get(asset)) else {
            return true;
        };
        types.iter().any(|name| name == asset.type_str())
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            only: None,
            neighbours: true,
            under_way: true,
        }
    }
}
