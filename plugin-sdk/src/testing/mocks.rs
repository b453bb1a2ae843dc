//! Mocks of the plugin traits. Apart, because the macro writes code that follows its own rules.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    AssetPlugin, CheckInfo, CheckPlugin, CheckRequest, Diff, DiffRequest, Health, HealthRequest,
    HealthValidator, MetricQuery, MetricSource, PushRequest, Pushed, SelectRequest, Selection,
    Series, TargetSelection, Turndown, Verdict,
    error::{BoxError, PluginError},
};

mockall::mock! {
    /// An asset plugin that does what a test tells it to.
    ///
    /// ```
    /// use plugin_sdk::{Diff, Pushed, testing::MockAssetPlugin};
    /// let mut plugin = MockAssetPlugin::new();
    /// plugin.expect_diff().returning(|_| Ok(Diff::in_sync()));
    /// plugin.expect_push().never();
    /// ```
    pub AssetPlugin {}

    #[async_trait]
    impl AssetPlugin for AssetPlugin {
        async fn diff(&self, request: DiffRequest) -> Result<Diff, PluginError>;
        async fn push(&self, request: PushRequest) -> Result<Pushed, PluginError>;
    }
}

mockall::mock! {
    /// A check that says what a test tells it to.
    pub CheckPlugin {}

    #[async_trait]
    impl CheckPlugin for CheckPlugin {
        fn info(&self) -> CheckInfo;
        async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError>;
    }
}

mockall::mock! {
    /// A turndown that does what a test tells it to.
    pub Turndown {}

    #[async_trait]
    impl Turndown for Turndown {
        async fn turndown(&self, request: PushRequest) -> Result<Pushed, PluginError>;
    }
}

mockall::mock! {
    /// A target selection that selects what a test tells it to.
    pub TargetSelection {}

    #[async_trait]
    impl TargetSelection for TargetSelection {
        async fn select(&self, request: SelectRequest) -> Result<Selection, BoxError>;
    }
}

mockall::mock! {
    /// A health validator that finds what a test tells it to.
    pub HealthValidator {}

    #[async_trait]
    impl HealthValidator for HealthValidator {
        fn name(&self) -> Arc<str>;
        async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError>;
    }
}

mockall::mock! {
    /// A source of metrics that has what a test tells it to.
    pub MetricSource {}

    #[async_trait]
    impl MetricSource for MetricSource {
        async fn read(&self, query: MetricQuery) -> Result<Vec<Series>, BoxError>;
    }
}
