//! The layer that adds a [`Calendar`] to a check stack.

use plugin_sdk::service::{Check, CheckLayer};
use tower_layer::Layer;

use super::{Calendar, Error};

/// A layer that lets pushes start only while a calendar is open.
///
/// ```
/// use annealing_checks::{CalendarLayer, calendar::Calendar};
/// use plugin_sdk::service::Proceed;
///
/// let checks = tower::ServiceBuilder::new()
///     .layer(CalendarLayer::weekdays("America/New_York")?)
///     // A second calendar for databases, which are changed at night.
///     .layer(CalendarLayer::new(
///         Calendar::builder("Europe/Zurich")
///             .named("database-nights")
///             .types(annealing_checks::Types::only(["db.v1.Schema"]))
///             .weekly("Sun-Thu 22:00-04:00")
///             .build()?,
///     ))
///     .service(Proceed);
/// # Ok::<(), annealing_checks::calendar::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CalendarLayer(CheckLayer<Calendar>);

impl CalendarLayer {
    /// Makes a layer that lets pushes start only while `calendar` is open.
    pub fn new(calendar: Calendar) -> Self {
        Self(CheckLayer::new(calendar))
    }

    /// Makes a layer that is open Monday to Friday, 09:00 to 17:00, in the IANA time zone `zone`.
    ///
    /// # Errors
    /// If the zone is unknown.
    pub fn weekdays(zone: &str) -> Result<Self, Error> {
        Calendar::weekdays(zone).map(Self::new)
    }
}

impl<S> Layer<S> for CalendarLayer {
    type Service = Check<S, Calendar>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
