//! The identity of an object: what makes it the same object at another place, or with other content.

use std::fmt;

use plugin_sdk::{
    Document, Problems,
    document::{FieldPath, Value},
};
use prodspec_model::{TypeName, id::InvalidId};

/// The kind of an object, with its API group and version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The API group, such as `apps`. Empty for the core group.
    pub group: Box<str>,
    /// The version in the group, such as `v1`.
    pub version: Box<str>,
    /// The name of the kind, such as `Deployment`.
    pub kind: Box<str>,
}

impl Kind {
    /// The kind with the `apiVersion` and `kind` of its manifests.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// The `apiVersion` of its manifests, such as `apps/v1` or `v1`.
    pub fn api_version(&self) -> String {
        match &*self.group {
            "" => self.version.to_string(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The name of the kind with its group, if it has one: `ConfigMap`, `Deployment.apps`. It is the same for all
    /// versions, and no two kinds of one cluster have the same.
    pub fn qualified(&self) -> String {
        match &*self.group {
            "" => self.kind.to_string(),
            group => format!("{}.{group}", self.kind),
        }
    }
}

impl Kind {
    /// The name of the asset type for objects of this kind: `kubernetes.v1.ConfigMap`, `kubernetes.apps.v1.Deployment`.
    /// What type names do not allow is replaced: `-` by `_`, and a segment that begins with a digit gets an `X` in front.
    /// Neither occurs in the names of groups and versions, so that no two kinds have the same type.
    ///
    /// # Errors
    /// When the group, version or kind is not valid in Kubernetes.
    ///
    /// ```
    /// use plugins_kubernetes::Kind;
    /// let kind = Kind::new("cert-manager.io/v1", "Issuer");
    /// assert_eq!(kind.type_name()?.as_str(), "kubernetes.cert_manager.io.v1.Issuer");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn type_name(&self) -> Result<TypeName, InvalidId> {
        let group = self.group.split('.').filter(|_| !self.group.is_empty());
        let segments = group.chain([&*self.version, &*self.kind]);
        let mut name = "kubernetes".to_owned();
        for segment in segments {
            let first = segment.starts_with(|first: char| first.is_ascii_digit());
            name += if first { ".X" } else { "." };
            name += &segment.replace('-', "_");
        }
        TypeName::new(&name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

/// What a manifest says about the identity of its object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// The kind of the object.
    pub kind: Kind,
    /// The namespace that the manifest names. `None`: the object belongs to no namespace, or to the default one.
    pub namespace: Option<Box<str>>,
    /// The name of the object.
    pub name: Box<str>,
}

impl Object {
    /// Reads the identity of the object in a document.
    ///
    /// # Errors
    /// Everything that is missing or wrong in it.
    pub fn of(document: &Document) -> Result<Self, Problems> {
        let mut fields = Fields {
            document,
            problems: Problems::none(),
        };
        let api_version = fields.required("apiVersion");
        let kind = Kind::new(&api_version, &fields.required("kind"));
        let name = fields.name(&kind);
        let namespace = fields.text("metadata.namespace");
        if kind.group.contains('/') || !api_version.is_empty() && kind.version.is_empty() {
            fields.wrong(
                "apiVersion",
                "must be a version, or a group and a version: `v1`, `apps/v1`",
            );
        }
        if kind.kind.contains(['/', '.']) {
            fields.wrong("kind", "a kind has no `/` and no `.`; correct it");
        }
        let named = [
            ("metadata.name", Some(&name)),
            ("metadata.namespace", namespace.as_ref()),
        ];
        for (path, text) in named {
            if text.is_some_and(|text| text.contains('/')) {
                fields.wrong(path, "a name in Kubernetes has no `/`; remove it");
            }
        }
        match fields.problems.is_empty() {
            true => Ok(Self {
                kind,
                namespace,
                name,
            }),
            false => Err(fields.problems),
        }
    }

    /// Checks that no part of the identity, which the document has, looks like a template.
    ///
    /// # Errors
    /// Every part that does. A text that is declared as rendered need not be checked.
    pub fn check_rendered(&self, document: &Document) -> Result<(), Problems> {
        let parts = [
            ("apiVersion", &*self.kind.api_version()),
            ("kind", &self.kind.kind),
            ("metadata.name", &self.name),
            (
                "metadata.namespace",
                self.namespace.as_deref().unwrap_or_default(),
            ),
        ];
        let is_template = |text: &str| TEMPLATES.iter().any(|open| text.contains(open));
        let problem = |(path, text): &(&str, &str)| {
            let message = format!(
                "`{text}` looks like a template; render it first, for example with an exec source, or declare the source as rendered"
            );
            document.problem_at(path, message)
        };
        let found = parts.iter().filter(|(_, text)| is_template(text));
        let problems: Problems = found.map(problem).collect();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        }
    }

    /// The name of the object in its cluster: `Deployment.apps/prod/web`, or `Namespace/prod` for an object without a
    /// namespace. The API group is left out for the core group only, so that the name of one object never depends on
    /// others; the version is left out, because all versions are the same object.
    ///
    /// ```
    /// use plugins_kubernetes::{Kind, Object};
    /// let object = |kind, namespace: Option<&str>, name: &str| Object {
    ///     kind,
    ///     namespace: namespace.map(Into::into),
    ///     name: name.into(),
    /// };
    /// let web = object(Kind::new("apps/v1", "Deployment"), Some("prod"), "web");
    /// assert_eq!(web.name(), "Deployment.apps/prod/web");
    /// assert_eq!(object(Kind::new("v1", "Namespace"), None, "prod").name(), "Namespace/prod");
    /// ```
    pub fn name(&self) -> String {
        let (kind, name) = (self.kind.qualified(), &self.name);
        match &self.namespace {
            Some(namespace) => format!("{kind}/{namespace}/{name}"),
            None => format!("{kind}/{name}"),
        }
    }
}

/// How expressions of common template languages begin. An identity that contains one, in quotes or not, was not rendered.
const TEMPLATES: [&str; 4] = ["{{", "{%", "<%", "${"];

/// Reads fields of a document, and collects what is wrong with them.
struct Fields<'d> {
    document: &'d Document,
    problems: Problems,
}

impl Fields<'_> {
    fn wrong(&mut self, path: &str, message: &str) {
        self.problems.push(self.document.problem_at(path, message));
    }

    /// The text of a field. `None`: it is missing, null, empty, or no text, which is a problem.
    fn text(&mut self, path: &str) -> Option<Box<str>> {
        match self.value(path) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(_) => {
                self.wrong(path, "must be a text; quote it");
                None
            }
        }
    }

    /// The text of a field that every object has. Empty if there is none, which is a problem.
    fn required(&mut self, path: &str) -> Box<str> {
        if self.is_missing(path) {
            self.wrong(path, "is missing; every Kubernetes object has one");
        }
        self.text(path).unwrap_or_default()
    }

    /// The name of an object of this kind.
    fn name(&mut self, kind: &Kind) -> Box<str> {
        if self.is_missing("metadata.name") && &*kind.group == "kustomize.config.k8s.io" {
            let message = "a kustomization is no object of a cluster; render it first, for example with an exec source that runs `kubectl kustomize`";
            self.wrong("kind", message);
        } else if self.is_missing("metadata.name") && !self.is_missing("metadata.generateName") {
            let message = "an object with a generated name is a new one each time and has no identity; give it a metadata.name";
            self.wrong("metadata.generateName", message);
        } else {
            return self.required("metadata.name");
        }
        Box::default()
    }

    /// Whether a field is missing, null or an empty text.
    fn is_missing(&self, path: &str) -> bool {
        match self.value(path) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(_) => false,
        }
    }

    fn value(&self, path: &str) -> Option<&Value> {
        let path: FieldPath = path.parse().ok()?;
        self.document.root().at(&path).map(|node| &node.value)
    }
}
