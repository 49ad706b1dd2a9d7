//! Where the ledger is shared: `router_settings.redis_*` with `cache_kwargs`, or the Redis of LiteLLM's response cache,
//! or the `REDIS_*` variables, in this order. Variables also fill in what a file leaves out of the login.
mod login;
mod nodes;
mod source;

use super::keys;
use super::known;
use super::problem::Problems;
use super::read::{Field, Section};
use ledger::{
    LedgerError, OnOutage, RedisAddress, RedisEndpoint, RedisLedger, RedisLogin, RedisPlace, RedisSettings,
};
use login::Said;
pub(super) use source::variables;
use source::{PLACES, Source};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// The Redis to share, if there is one. `environment` holds the `REDIS_*` variables.
pub(super) fn settings<'t>(
    router: &Section<'t>,
    litellm: &Section<'t>,
    onegate: &Section<'t>,
    environment: &Section<'t>,
    on_outage: OnOutage,
    problems: &mut Problems,
) -> Option<RedisSettings> {
    let kwargs = router.section("cache_kwargs", problems);
    known::check(&kwargs, &keys::CACHE_KWARGS, problems);
    let ledger = onegate.section("ledger", problems);
    known::check(&ledger, &keys::LEDGER, problems);
    let own = Source::router(router, &kwargs);
    let cache = cache_params(litellm, problems);
    let environment = Source::environment(environment);

    let cache_namespace = cache.as_ref().and_then(|cache| cache.get("namespace"));
    let cache_namespace = cache_namespace.filter(|_| !own.names_a_place());
    let named = [ledger.get("namespace"), kwargs.get("namespace"), cache_namespace];
    let namespace = namespace(named.into_iter().flatten().collect(), problems);

    let cache = cache.map(|cache| Source::cache(&cache));
    let chosen = [Some(&own), cache.as_ref(), Some(&environment)];
    let Some(chosen) = chosen.into_iter().flatten().find(|source| source.names_a_place()).cloned() else {
        warn_of_orphan(&own, problems);
        return None;
    };
    // What is not used is still read, so that all its faults are told.
    if let Some(unused) = cache.as_ref().filter(|cache| own.names_a_place() && cache.names_a_place()) {
        let _ = place(unused, environment.clone(), &ledger, problems);
    }
    // A variable that names the place is filled in by the file, and the other way round.
    let others = if chosen.is_environment() { own } else { environment };
    let (by, place) = place(&chosen, others, &ledger, problems)?;
    if matches!(place, RedisPlace::Cluster { .. }) && namespace.contains(['{', '}']) {
        let problem = by.error("with braces in the namespace all keys of a cluster would lie on one node");
        problems.push(problem.allowed("a namespace without { and }"));
    }
    match RedisLedger::check(place.clone()) {
        Ok(()) => Some(RedisSettings { place, namespace, on_outage }),
        Err(error) => {
            problems.push(by.error(format!("`{}`: {error}", by.key)));
            None
        }
    }
}

/// LiteLLM's router shares the Redis of the response cache if it has none of its own.
fn cache_params<'t>(litellm: &Section<'t>, problems: &mut Problems) -> Option<Section<'t>> {
    let on = litellm.get("cache").filter(|cache| cache.flag(problems) == Some(true));
    let params = litellm.section("cache_params", problems);
    known::check(&params, &keys::CACHE_PARAMS, problems);
    let kind = params.read("type", Field::text, problems).unwrap_or("redis");
    if let Some(on) = &on {
        let what = "answers are not cached; a Redis named in `cache_params` is shared for routing";
        problems.push(on.warning(what));
    }
    on.filter(|_| kind == "redis").map(|_| params)
}

fn namespace(named: Vec<Field<'_>>, problems: &mut Problems) -> String {
    let mut chosen: Option<&str> = None;
    for field in named {
        let Some(text) = field.text(problems) else { continue };
        match chosen {
            Some(other) if other != text => {
                let problem = field.error("the ledger's namespace is given twice, and not the same");
                problems.push(
                    problem
                        .allowed("one of `onegate_settings.ledger.namespace` and `cache_kwargs.namespace`"),
                );
            }
            _ => chosen = Some(text),
        }
    }
    chosen.unwrap_or_default().to_owned()
}

/// Without a place the rest is of no use; its faults are told all the same.
fn warn_of_orphan(own: &Source<'_>, problems: &mut Problems) {
    let Some(orphan) = own.detail() else { return };
    let said = Said(vec![own.clone()]);
    if let Some(port) = said.get("port") {
        nodes::port(&port, problems);
    }
    said.login(problems);
    let problem = orphan.warning("not used: without `redis_host` nothing is shared");
    problems.push(problem.allowed("`redis_host`, or `redis_url`"));
}

/// The place, and the value that names it.
fn place<'t>(
    chosen: &Source<'t>,
    others: Source<'t>,
    ledger: &Section<'t>,
    problems: &mut Problems,
) -> Option<(Field<'t>, RedisPlace)> {
    let mut named = PLACES.into_iter().filter_map(|kind| chosen.get(kind).map(|field| (kind, field)));
    let (kind, by) = named.next()?;
    // In an environment several may stand by chance: the first wins, as in LiteLLM.
    for (_, other) in named.filter(|_| !chosen.is_environment()) {
        let problem = other.error(format!("`{}` and `{}` name two kinds of Redis", by.key, other.key));
        problems.push(problem.allowed("one of a URL, a host, the nodes of a cluster and sentinels"));
    }
    let said = Said(vec![chosen.clone(), others]);
    let place = match kind {
        "url" => by_url(&by, chosen, problems)?,
        "startup_nodes" => cluster(&by, &said, problems)?,
        "sentinel_nodes" => sentinel(&by, &said, ledger, problems)?,
        _ => {
            let login = said.login(problems);
            let port = said.get("port").map_or(Some(PORT), |field| nodes::port(&field, problems));
            let host = nodes::host(&by, problems);
            let at = RedisEndpoint { host: host?, port: port? };
            RedisPlace::Single { address: RedisAddress::Tcp(at), login }
        }
    };
    Some((by, place))
}

/// A URL tells all of it. Keys beside it may add to it, but variables do not add to a URL of the file.
fn by_url(by: &Field<'_>, chosen: &Source<'_>, problems: &mut Problems) -> Option<RedisPlace> {
    match RedisPlace::of_url(by.text(problems)?.trim()) {
        Ok(RedisPlace::Single { address, login }) => {
            let login = Said(vec![chosen.clone()]).added_to(login, problems);
            Some(RedisPlace::Single { address, login })
        }
        Ok(place) => Some(place),
        Err(
            LedgerError::Address { reason }
            | LedgerError::Settings { reason }
            | LedgerError::Unreachable { reason, .. },
        ) => {
            let problem = by.error(format!("`{}` is no address of a Redis: {reason}", by.key));
            problems.push(problem.allowed(
                "redis://USER:PASSWORD@HOST:PORT/DATABASE, percent-encoded; rediss:// or unix://PATH",
            ));
            None
        }
    }
}

fn cluster(by: &Field<'_>, said: &Said<'_>, problems: &mut Problems) -> Option<RedisPlace> {
    let nodes = nodes::endpoints(by, PORT, problems);
    let login = said.login(problems);
    if let Some(db) = said.get("db").filter(|_| login.database != 0) {
        let problem = db.error(format!("`{}`: a cluster has no other database than 0", db.key));
        problems.push(problem.allowed("0, or a namespace"));
    }
    Some(RedisPlace::Cluster { nodes: nodes?, login })
}

fn sentinel(
    by: &Field<'_>,
    said: &Said<'_>,
    ledger: &Section<'_>,
    problems: &mut Problems,
) -> Option<RedisPlace> {
    let sentinels = nodes::endpoints(by, SENTINEL_PORT, problems);
    let mut login = said.login(problems);
    let password = said.text("sentinel_password", problems);
    // As in LiteLLM; an empty password says that the master has none.
    if said.get("password").is_none() {
        login.password = login.password.or_else(|| password.clone());
    }
    let username = ledger.read("sentinel_username", Field::text, problems).map(str::to_owned);
    let is_encrypted = ledger.read("sentinel_ssl", Field::flag, problems);
    let tls = login.tls.clone().filter(|_| is_encrypted != Some(false));
    if let Some(field) = ledger.get("sentinel_ssl").filter(|_| is_encrypted == Some(true) && tls.is_none()) {
        let problem = field.error("the sentinels cannot be encrypted alone");
        problems.push(problem.allowed("`ssl: true` for the master too"));
    }
    let sentinel_login = RedisLogin { username, password, database: 0, tls };
    let master = said.text("service_name", problems);
    if master.is_none() {
        let problem = by.error(format!("`{}` needs the name of the master", by.key));
        problems.push(problem.allowed("`service_name` beside it, such as mymaster"));
    }
    Some(RedisPlace::Sentinel { sentinels: sentinels?, sentinel_login, master: master?, login })
}
