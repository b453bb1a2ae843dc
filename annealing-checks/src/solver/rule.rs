//! Rules: questions about neighbours, and the waits that follow from the answers.

use std::{cell::OnceCell, fmt};

use plugin_sdk::{
    Cause, CheckRequest, Claim, DEAD_END, Effects, PartitionView, Shared, observe::Link,
};
use prodspec_model::AssetId;
use serde_json::{Map, Value};

use super::Seen;

/// An order between pushes. A rule is pure: it states which assets it needs to know about, and the solver observes
/// them.
///
/// ```
/// use annealing_checks::solver::{DependencySolver, OrderRule, Push, Question, Wait};
/// use plugin_sdk::Diff;
///
/// /// An asset shrinks only while none of its consumers is being changed.
/// struct QuietConsumers;
///
/// impl OrderRule for QuietConsumers {
///     fn questions(&self, push: &Push<'_>) -> Vec<Question> {
///         if push.effects().capacity.values().all(|it| it.to >= it.from) {
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
    /// The questions that must be answered before `push` may start. Empty: the rule does not concern this push.
    fn questions(&self, push: &Push<'_>) -> Vec<Question>;
}

/// Whether a push with this cause restores earlier content or repairs drift.
pub(super) fn cures(cause: Cause) -> bool {
    matches!(cause, Cause::Drift | Cause::Rollback)
}

/// A push that is to be ordered relative to its neighbours.
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

    /// The check request of the push.
    pub fn request(&self) -> &CheckRequest {
        self.request
    }

    /// Id of the asset to be pushed.
    pub fn asset(&self) -> &AssetId {
        self.request.asset_id()
    }

    /// The effects of the push that matter to other assets.
    pub fn effects(&self) -> &Effects {
        &self.request.change.effects
    }

    /// The providers that the asset depends on.
    pub fn providers(&self) -> &[Link] {
        let at = self.request.incarnation().no;
        self.providers
            .get_or_init(|| self.view.providers(self.asset(), at))
    }

    /// The providers that the asset starts to use with this push.
    pub fn brought(&self) -> Vec<Link> {
        let at = self.request.incarnation().no;
        self.view.brought(self.asset(), at)
    }

    /// The consumers that depend on the asset.
    pub fn consumers(&self) -> &[Link] {
        self.consumers
            .get_or_init(|| self.consumers_of(self.asset()))
    }

    /// The consumers that depend on another asset, `provider`.
    pub fn consumers_of(&self, provider: &AssetId) -> Vec<Link> {
        self.view.consumers(provider, self.request.incarnation().no)
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

/// The conclusions from an answered question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answered {
    /// The neighbours that the push waits for.
    pub waits: Vec<Wait>,
    /// The claims of the push, if it waits for nothing.
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

/// A question about some neighbours, answered once the state of all of them is known. A push waits for neighbours that
/// cannot be observed. A neighbour that is gone is known to have no capacity, no version and no use.
pub struct Question {
    pub(super) about: Vec<AssetId>,
    pub(super) shared: Option<Shared>,
    /// `true`: answered about neighbours that are modelled only too.
    pub(super) modelled_only: bool,
    pub(super) answer: Answer,
}

impl Question {
    /// Makes a question: the solver observes the assets `about`, then calls `answer`, which returns waits or a claim.
    pub fn new<A: Into<Answered>>(
        about: impl IntoIterator<Item = AssetId>,
        answer: impl FnOnce(&Seen) -> A + Send + 'static,
    ) -> Self {
        Self {
            about: about.into_iter().collect(),
            shared: None,
            modelled_only: false,
            answer: Box::new(|seen| answer(seen).into()),
        }
    }

    /// Whether the state of all assets and usages of the question is known.
    pub(super) fn is_answerable(&self, seen: &Seen) -> bool {
        let shared = self.shared.iter();
        let mut about = self.about.iter();
        let modelled_only = |asset| self.modelled_only && seen.is_modelled_only(asset);
        let known = |asset| seen.diff(asset).is_some() || seen.is_gone(asset);
        about.all(|asset| known(asset) || modelled_only(asset))
            && shared
                .into_iter()
                .all(|shared| seen.usage(shared).is_some())
    }

    /// Also asks for the use of `shared` by its other consumers: see [`Seen::usage`].
    #[must_use]
    pub fn and_usage(mut self, shared: Shared) -> Self {
        self.shared = Some(shared);
        self
    }

    /// Has the question answered about modelled-only neighbours too: see [`Seen::is_modelled_only`]. By default a push
    /// waits for them, because their state in production is unknown.
    #[must_use]
    pub fn and_modelled_only(mut self) -> Self {
        self.modelled_only = true;
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

/// A neighbour that has to be pushed before the push at hand.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Wait {
    /// The asset that the push waits for.
    pub on: AssetId,
    /// Why the push waits, for operators.
    pub reason: String,
    /// The evidence for the wait, as JSON. `Null`: none.
    pub evidence: Value,
}

impl Wait {
    /// Makes a wait that lasts until `on` is settled.
    pub fn on(on: AssetId, reason: impl Into<String>) -> Self {
        Self {
            on,
            reason: reason.into(),
            evidence: Value::Null,
        }
    }

    /// Sets the evidence of the wait.
    #[must_use]
    pub fn because(self, evidence: Value) -> Self {
        Self { evidence, ..self }
    }

    /// Marks the wait as a dead end: no push of any asset at its present pin ends it. `way_out` names the edit or the
    /// command that does. `explain` shows the wait as a dead end.
    #[must_use]
    pub fn dead_end(mut self, way_out: &str) -> Self {
        if !self.evidence.is_object() {
            self.evidence = Value::Object(Map::new());
        }
        self.evidence[DEAD_END] = way_out.into();
        self
    }
}
