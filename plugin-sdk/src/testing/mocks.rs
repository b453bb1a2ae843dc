//! Mocks of the plugin traits. In a file of their own, because the macro generates code in its own style.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    AssetPlugin, CheckInfo, CheckName, CheckPlugin, CheckRequest, Diff, DiffRequest, Dispatch,
    DispatchPlugin, DispatchRequest, Health, HealthRequest, HealthValidator, OperationFunction,
    Probe, PushRequest, Pushed, SampleQuery, SampleSource, SelectRequest, Selection, Series,
    TargetSelection, Turndown, Verdict,
    error::{BoxError, PluginError},
    operation::{EffectKey, FunctionInfo, FunctionRequest, Probed, Ran},
};

mockall::mock! {
    /// A mock asset plugin that returns what a test sets.
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
    /// A mock check that returns what a test sets.
    pub CheckPlugin {}

    #[async_trait]
    impl CheckPlugin for CheckPlugin {
        fn info(&self) -> CheckInfo;
        async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError>;
    }
}

mockall::mock! {
    /// A mock turndown that returns what a test sets.
    pub Turndown {}

    #[async_trait]
    impl Turndown for Turndown {
        async fn turndown(&self, request: PushRequest) -> Result<Pushed, PluginError>;
    }
}

mockall::mock! {
    /// A mock target selection that returns what a test sets.
    pub TargetSelection {}

    #[async_trait]
    impl TargetSelection for TargetSelection {
        async fn select(&self, request: SelectRequest) -> Result<Selection, BoxError>;
    }
}

mockall::mock! {
    /// A mock health validator that returns what a test sets.
    pub HealthValidator {}

    #[async_trait]
    impl HealthValidator for HealthValidator {
        fn name(&self) -> Arc<str>;
        async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError>;
    }
}

mockall::mock! {
    /// A mock metric source that returns what a test sets.
    pub SampleSource {}

    #[async_trait]
    impl SampleSource for SampleSource {
        async fn read(&self, query: SampleQuery) -> Result<Vec<Series>, BoxError>;
    }
}

mockall::mock! {
    /// A mock function that returns what a test sets.
    pub OperationFunction {}

    #[async_trait]
    impl OperationFunction for OperationFunction {
        fn info(&self) -> FunctionInfo;
        async fn run(&self, request: FunctionRequest) -> Result<Ran, PluginError>;
    }
}

mockall::mock! {
    /// A mock probe that returns what a test sets.
    pub Probe {}

    #[async_trait]
    impl Probe for Probe {
        async fn probe(&self, key: EffectKey) -> Result<Probed, PluginError>;
    }
}

mockall::mock! {
    /// A mock dispatch rule that returns what a test sets.
    pub DispatchPlugin {}

    #[async_trait]
    impl DispatchPlugin for DispatchPlugin {
        fn name(&self) -> CheckName;
        async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError>;
    }
}
