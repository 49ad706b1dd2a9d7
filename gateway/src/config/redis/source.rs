//! Who may speak of a Redis, and how each spells the same words.
use super::super::problem::Place;
use super::super::read::{Field, Section};
use super::super::references::Variables;
use super::super::tree::{Entry, Map, Node, Scalar, Value};

/// The ways to name a Redis, the one that wins first, as in LiteLLM.
pub(super) const PLACES: [&str; 4] = ["url", "startup_nodes", "sentinel_nodes", "host"];

/// What may be said of it, besides.
const DETAILS: [&str; 12] = [
    "port",
    "password",
    "username",
    "db",
    "ssl",
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_check_hostname",
    "ssl_cert_reqs",
    "service_name",
    "sentinel_password",
];

/// Sections that speak of one Redis, the first one first.
#[derive(Clone)]
pub(super) struct Source<'t>(Vec<(Section<'t>, Spelling)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// `redis_host`.
    Prefixed,
    /// `host`.
    Plain,
    /// `REDIS_HOST`.
    Variable,
}

impl<'t> Source<'t> {
    /// `router_settings`, and the arguments that LiteLLM's router hands on.
    pub(super) fn router(router: &Section<'t>, kwargs: &Section<'t>) -> Self {
        Self(vec![(router.clone(), Spelling::Prefixed), (kwargs.clone(), Spelling::Plain)])
    }

    /// `cache_params`.
    pub(super) fn cache(params: &Section<'t>) -> Self {
        Self(vec![(params.clone(), Spelling::Plain), (params.clone(), Spelling::Prefixed)])
    }

    /// What [`variables`] made.
    pub(super) fn environment(variables: &Section<'t>) -> Self {
        Self(vec![(variables.clone(), Spelling::Variable)])
    }

    pub(super) fn is_environment(&self) -> bool {
        self.0.iter().all(|(_, spelling)| *spelling == Spelling::Variable)
    }

    pub(super) fn get(&self, key: &str) -> Option<Field<'t>> {
        self.0.iter().find_map(|(section, spelling)| section.get(&spelling.of(key)))
    }

    pub(super) fn names_a_place(&self) -> bool {
        PLACES.iter().any(|key| self.get(key).is_some())
    }

    /// Something that says nothing without a place.
    pub(super) fn detail(&self) -> Option<Field<'t>> {
        DETAILS.iter().find_map(|key| self.get(key))
    }
}

impl Spelling {
    fn of(self, key: &str) -> String {
        match self {
            Self::Prefixed => format!("redis_{key}"),
            Self::Plain => key.to_owned(),
            Self::Variable if key == "startup_nodes" => "REDIS_CLUSTER_NODES".to_owned(),
            Self::Variable => format!("REDIS_{}", key.to_uppercase()),
        }
    }
}

/// The `REDIS_*` variables as a section. An empty one says nothing; neither does the `REDIS_PORT` that Kubernetes sets
/// for a service of the name `redis`, which is an address.
pub(in super::super) fn variables(variables: &Variables<'_>) -> Map {
    let names = PLACES.iter().chain(&DETAILS).map(|key| Spelling::Variable.of(key));
    let entry = |name: String| {
        let text =
            variables.get(&name).filter(|text| !text.is_empty() && !text.starts_with("tcp://"))?.to_owned();
        let place = Place::Environment(name.as_str().into());
        let value = Value::Scalar(Scalar { text, plain: true, variable: Some(name.as_str().into()) });
        Some(Entry { key: name, place: place.clone(), node: Node { value, place } })
    };
    Map(names.filter_map(entry).collect())
}
