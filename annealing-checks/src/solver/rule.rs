//! What a rule is: questions about neighbours, and whom to wait for once they are answered.

use std::{cell::OnceCell, fmt};

use plugin_sdk::{CheckRequest, Claim, DEAD_END, Effects, PartitionView, Shared, observe::Link};
use prodspec_model::AssetId;
use serde_json::{Map, Value};

use super::Seen;

/// An order between pushes. Pure: what it wants to know it asks, and the solver looks.
///
/// ```
/// use annealing_checks::solver::{DependencySolver, OrderRule, Push, Question, Wait};
/// use plugin_sdk::Diff;
///
/// /// Nothing shrinks while one of its consumers is being changed.
/// struct QuietConsumers;
///
/// impl OrderRule for QuietConsumers {
///     fn questions(&self, push: &Push<'_>) -> Vec<Question> {
///         if push.effects().capacity.values().all(|(from, to)| to >= from) {
///             return vec![];
///         }
///         let quiet = |link: &plugin_sdk::observe::Link| {
///             let consumer = link.asset.clone();
///             Question::new([consumer.clone()], move |seen| match seen.diff(&consumer) {
///                 Some(Diff::InSync { .. }) => vec![],
///                 _ => vec![Wait::on(consumer, "it is being changed")],
///             })
///         };
///         push.consumers().iter().map(quiet).collect()
///     }
/// }
///
/// let solver = DependencySolver::standard().with(QuietConsumers);
/// ```
pub trait OrderRule: Send + Sync + 'static {
    /// What must be known before `push` may start. Empty: this rule does not mind.
    fn questions(&self, push: &Push<'_>) -> Vec<Question>;
}

/// A push that is to be ordered among its neighbours.
pub struct Push<'a> {
    request: &'a CheckRequest,
    view: &'a dyn PartitionView,
    providers: OnceCell<Vec<Link>>,
    consumers: OnceCell<Vec<Link>>,
}

impl<'a> Push<'a> {
    pub(super) fn new(request: &'a CheckRequest, view: &'a dyn PartitionView) -> Self {
        Self {
            request,
            view,
            providers: OnceCell::new(),
            consumers: OnceCell::new(),
        }
    }

    /// Everything that is known of the push itself.
    pub fn request(&self) -> &CheckRequest {
        self.request
    }

    /// The asset to be pushed.
    pub fn asset(&self) -> &AssetId {
        &self.request.asset
    }

    /// What the push does that others care about.
    pub fn effects(&self) -> &Effects {
        &self.request.change.effects
    }

    /// Whom the asset needs.
    pub fn providers(&self) -> &[Link] {
        let at = self.request.incarnation.no;
        self.providers
            .get_or_init(|| self.view.providers(self.asset(), at))
    }

    /// Whom the asset needs from this push on.
    pub fn brought(&self) -> Vec<Link> {
        let at = self.request.incarnation.no;
        self.view.brought(self.asset(), at)
    }

    /// Who needs the asset.
    pub fn consumers(&self) -> &[Link] {
        self.consumers
            .get_or_init(|| self.consumers_of(self.asset()))
    }

    /// Who needs another asset.
    pub fn consumers_of(&self, provider: &AssetId) -> Vec<Link> {
        self.view.consumers(provider, self.request.incarnation.no)
    }
}

impl fmt::Debug for Push<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push")
            .field("request", self.request)
            .finish_non_exhaustive()
    }
}

type Answer = Box<dyn FnOnce(&Seen) -> Answered + Send>;

/// What follows from an answered question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answered {
    /// The neighbours that the push waits for.
    pub waits: Vec<Wait>,
    /// What the push takes, if it waits for nothing.
    pub claims: Vec<Claim>,
}

impl From<Vec<Wait>> for Answered {
    fn from(waits: Vec<Wait>) -> Self {
        let claims = Vec::new();
        Self { waits, claims }
    }
}

impl From<Claim> for Answered {
    fn from(claim: Claim) -> Self {
        let (waits, claims) = (Vec::new(), vec![claim]);
        Self { waits, claims }
    }
}

/// A question about some neighbours: answered once all of them were seen. A push waits for those that cannot be seen.
pub struct Question {
    pub(super) about: Vec<AssetId>,
    pub(super) shared: Option<Shared>,
    pub(super) answer: Answer,
}

impl Question {
    /// Looks at `about`, then asks `answer` whom to wait for.
    pub fn new<A: Into<Answered>>(
        about: impl IntoIterator<Item = AssetId>,
        answer: impl FnOnce(&Seen) -> A + Send + 'static,
    ) -> Self {
        Self {
            about: about.into_iter().collect(),
            shared: None,
            answer: Box::new(|seen| answer(seen).into()),
        }
    }

    /// Whether everything that it asks about was seen.
    pub(super) fn is_answerable(&self, seen: &Seen) -> bool {
        let shared = self.shared.iter();
        let mut about = self.about.iter();
        about.all(|asset| seen.diff(asset).is_some())
            && shared
                .into_iter()
                .all(|shared| seen.usage(shared).is_some())
    }

    /// Asks also what the other consumers use of `shared`: see [`Seen::usage`].
    #[must_use]
    pub fn and_usage(mut self, shared: Shared) -> Self {
        self.shared = Some(shared);
        self
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// A neighbour that comes first.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Wait {
    /// Whom the push waits for.
    pub on: AssetId,
    /// Why, for people.
    pub reason: String,
    /// What it rests on.
    pub evidence: Value,
}

impl Wait {
    /// The push waits until `on` is settled.
    pub fn on(on: AssetId, reason: impl Into<String>) -> Self {
        Self {
            on,
            reason: reason.into(),
            evidence: Value::Null,
        }
    }

    /// Says what it rests on.
    #[must_use]
    pub fn because(self, evidence: Value) -> Self {
        Self { evidence, ..self }
    }

    /// Says that no pin leads out of this wait: at their pins of now, no push of any asset will end it. `way_out` names
    /// the edit or the word that does. `explain` shows such a wait as a dead end.
    #[must_use]
    pub fn dead_end(mut self, way_out: &str) -> Self {
        if !self.evidence.is_object() {
            self.evidence = Value::Object(Map::new());
        }
        self.evidence[DEAD_END] = way_out.into();
        self
    }
}
