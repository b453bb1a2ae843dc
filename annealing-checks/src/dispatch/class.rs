//! The layer that raises the class of work.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, CheckName, Class, Dispatch, DispatchPlugin, DispatchRequest,
    service::{DispatchLayer, Dispatched},
};
use tower_layer::Layer;

type Applies = dyn Fn(&DispatchRequest) -> bool + Send + Sync;

/// A layer that raises the class of some work: it starts before what else is due.
///
/// ```
/// use annealing_checks::dispatch::ClassLayer;
/// use plugin_sdk::{Class, service::ByCause};
///
/// let dispatch = tower::ServiceBuilder::new()
///     // Repairs go before all new work.
///     .layer(ClassLayer::at_least(Class::Urgent, |request| request.label("kind") == Some("repair")))
///     .service(ByCause);
/// # let _ = dispatch;
/// ```
#[derive(Debug, Clone)]
pub struct ClassLayer(DispatchLayer<Classes>);

/// The rule of [`ClassLayer`]: a class, and the work that gets it.
#[derive(Clone)]
pub struct Classes {
    class: Class,
    applies: Arc<Applies>,
}

impl ClassLayer {
    /// Gives the work for which `applies` returns `true` at least this class.
    pub fn at_least(
        class: Class,
        applies: impl Fn(&DispatchRequest) -> bool + Send + Sync + 'static,
    ) -> Self {
        let applies = Arc::new(applies);
        Self(DispatchLayer::new(Classes { class, applies }))
    }
}

#[async_trait]
impl DispatchPlugin for Classes {
    fn name(&self) -> CheckName {
        "class".into()
    }

    async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError> {
        Ok(match (self.applies)(&request) {
            true => request.go().at_least(self.class),
            false => request.go(),
        })
    }
}

impl<S> Layer<S> for ClassLayer {
    type Service = Dispatched<S, Classes>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classes")
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}
