//! Where the ledger is shared: `router_settings.redis_*`, or the Redis of LiteLLM's response cache.
use super::keys;
use super::known;
use super::number;
use super::outage;
use super::problem::Problems;
use super::read::{Field, Section};
use crate::catalog::RedisSettings;
use crate::secret::Secret;
use std::fmt::Write as _;
use std::net::Ipv6Addr;

const PORT: u16 = 6379;

/// The Redis to share, if there is one.
pub(super) fn settings(
    router: &Section<'_>,
    litellm: &Section<'_>,
    onegate: &Section<'_>,
    problems: &mut Problems,
) -> Option<RedisSettings> {
    let kwargs = router.section("cache_kwargs", problems);
    known::check(&kwargs, &keys::CACHE_KWARGS, problems);
    let ledger = onegate.section("ledger", problems);
    known::check(&ledger, &keys::LEDGER, problems);
    let own = url(router, "redis_", problems);
    let cache = cache_params(litellm, problems);
    let cache_url = cache.as_ref().and_then(|cache| url(cache, "", problems));
    let cache_namespace = cache.as_ref().and_then(|cache| cache.get("namespace"));
    let cache_namespace = cache_namespace.filter(|_| own.is_none());
    let named = [ledger.get("namespace"), kwargs.get("namespace"), cache_namespace];
    let namespace = namespace(named.into_iter().flatten().collect(), problems);
    let outage = outage::read(&ledger, problems);
    own.or(cache_url).map(|url| RedisSettings { url: Secret::new(url), namespace, outage })
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

/// One URL from the keys that begin so. A `url` wins over all others.
fn url(section: &Section<'_>, prefix: &str, problems: &mut Problems) -> Option<String> {
    let get = |key: &str| section.get(&format!("{prefix}{key}"));
    let host = get("host").and_then(|field| host(&field, problems));
    let port = get("port").and_then(|field| port(&field, problems)).unwrap_or(PORT);
    let password = get("password").and_then(|field| field.text(problems));
    let username = get("username").and_then(|field| field.text(problems));
    let db = get("db").and_then(|field| field.count(problems));
    let ssl = get("ssl").and_then(|field| field.flag(problems)).unwrap_or(false);
    if let Some(field) = get("url") {
        if let Some(other) = get("host").or_else(|| get("password")) {
            problems.push(other.warning(format!("not used: `{prefix}url` names the Redis")));
        }
        return given(&field, problems).and_then(|url| usable(&field, url, problems));
    }
    let Some(host) = host else {
        let orphan = ["port", "password", "username", "db", "ssl"].iter().find_map(|key| get(key));
        if let Some(orphan) = orphan.filter(|_| get("host").is_none()) {
            let what = format!("not used: without `{prefix}host` nothing is shared");
            problems.push(orphan.warning(what).allowed(format!("`{prefix}host`, or `{prefix}url`")));
        }
        return None;
    };
    let mut url = String::from(if ssl { "rediss://" } else { "redis://" });
    match (username.unwrap_or_default(), password.unwrap_or_default()) {
        ("", "") => {}
        (username, password) => {
            let _ = write!(url, "{}:{}@", encoded(username), encoded(password));
        }
    }
    let _ = write!(url, "{host}:{port}/{}", db.unwrap_or(0));
    let named = get("ssl").filter(|_| ssl).or_else(|| get("host"))?;
    usable(&named, url, problems)
}

/// What the ledger can never connect to is a fault of the file, not of the start.
fn usable(field: &Field<'_>, url: String, problems: &mut Problems) -> Option<String> {
    if url.starts_with("rediss://") {
        let problem = field.error("TLS to Redis is not built yet");
        problems.push(problem.allowed("a plain connection: `redis://`, or `redis_ssl: false`"));
        return None;
    }
    match ledger::RedisLedger::check_address(&url) {
        Ok(()) => Some(url),
        Err(error) => {
            let problem = field.error(format!("`{}`: {error}", field.key));
            problems.push(problem.allowed("redis://USER:PASSWORD@HOST:PORT/DATABASE, percent-encoded"));
            None
        }
    }
}

fn given(field: &Field<'_>, problems: &mut Problems) -> Option<String> {
    let text = field.text(problems)?.trim();
    let rest = text.strip_prefix("redis://").or_else(|| text.strip_prefix("rediss://"));
    let host = rest.map(|rest| rest.rsplit_once('@').map_or(rest, |(_, host)| host));
    if host.is_none_or(|host| host.is_empty() || host.starts_with(['/', ':'])) {
        let what = format!("`{}` must be the address of a Redis", field.key);
        problems.push(field.error(what).allowed("redis://HOST:PORT, with USER:PASSWORD@ before HOST"));
        return None;
    }
    Some(text.to_owned())
}

/// A host as URLs write it.
fn host(field: &Field<'_>, problems: &mut Problems) -> Option<String> {
    let text = field.name(problems)?.trim();
    if text.trim_start_matches('[').trim_end_matches(']').parse::<Ipv6Addr>().is_ok() {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        return Some(format!("[{bare}]"));
    }
    if text.contains([':', '/', '@', '?', '#', '%', '[', ']']) || text.contains(char::is_whitespace) {
        let what = format!("`{}` must be a host", field.key);
        problems.push(field.error(what).allowed("a name or an address alone; the port has its own key"));
        return None;
    }
    Some(text.to_owned())
}

fn port(field: &Field<'_>, problems: &mut Problems) -> Option<u16> {
    let text = field.text(problems)?;
    let port = number::count(text).and_then(|port| u16::try_from(port).ok()).filter(|&port| port > 0);
    if port.is_none() {
        problems.push(field.error(format!("`{}` must be a port", field.key)).allowed("1 to 65535"));
    }
    port
}

/// Percent-encodes all that could mean something in a URL.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
