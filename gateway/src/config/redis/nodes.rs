//! Hosts and ports: one each, or a list of nodes, written in YAML or, as variables have it, in JSON.
use super::super::number;
use super::super::problem::Problems;
use super::super::read::Field;
use super::super::tree::{Entry, Map, Node, Scalar, Value};
use ledger::RedisEndpoint;
use std::net::Ipv6Addr;

/// The nodes of a list: `{host: ..., port: ...}`, `[host, port]` or `host:port`.
pub(super) fn endpoints(field: &Field<'_>, port: u16, problems: &mut Problems) -> Option<Vec<RedisEndpoint>> {
    if let Value::Scalar(scalar) = &field.node.value {
        let Ok(json) = serde_json::from_str(&scalar.text) else {
            let problem = field.error(format!("`{}` must be a list of nodes", field.key));
            problems.push(problem.allowed(r#"a list, or its JSON such as [{"host": "a", "port": 6379}]"#));
            return None;
        };
        let node = written(&json, field.node);
        if matches!(node.value, Value::Scalar(_) | Value::Null) {
            let problem = field.error(format!("`{}` must be a list of nodes", field.key));
            problems.push(problem.allowed(r#"a list, or its JSON such as [{"host": "a", "port": 6379}]"#));
            return None;
        }
        let mut list = field.clone();
        list.node = &node;
        return endpoints(&list, port, problems);
    }
    let items = field.list(problems)?;
    if items.is_empty() {
        problems.push(field.error(format!("`{}` names no node", field.key)).allowed("at least one node"));
        return None;
    }
    // All of them are read before one that is wrong ends it.
    let read: Vec<_> = items.iter().map(|item| endpoint(item, port, problems)).collect();
    read.into_iter().collect()
}

fn endpoint(item: &Field<'_>, default: u16, problems: &mut Problems) -> Option<RedisEndpoint> {
    match &item.node.value {
        Value::Map(_) => {
            let node = item.section(problems)?;
            let Some(name) = node.get("host") else {
                problems.push(item.error("a node needs its host").allowed("{host: NAME, port: NUMBER}"));
                return None;
            };
            let name = host(&name, problems);
            let port = node.get("port").map_or(Some(default), |field| port(&field, problems));
            Some(RedisEndpoint { host: name?, port: port? })
        }
        Value::List(_) => {
            let parts = item.list(problems)?;
            let [name, rest @ ..] = parts.as_slice() else {
                problems.push(item.error("a node needs its host").allowed("[NAME, NUMBER]"));
                return None;
            };
            let name = host(name, problems);
            let port = rest.first().map_or(Some(default), |field| port(field, problems));
            Some(RedisEndpoint { host: name?, port: port? })
        }
        _ => {
            let text = item.name(problems)?.trim();
            let read = text.rsplit_once(':').and_then(|(host, port)| {
                let port =
                    number::count(port).and_then(|port| u16::try_from(port).ok()).filter(|&port| port > 0)?;
                Some(RedisEndpoint { host: bare(host)?, port })
            });
            if read.is_none() {
                problems.push(item.error("a node must be a host and a port").allowed("HOST:PORT"));
            }
            read
        }
    }
}

/// A host; an address of version 6 without its brackets.
pub(super) fn host(field: &Field<'_>, problems: &mut Problems) -> Option<String> {
    let text = field.name(problems)?.trim();
    let host = bare(text);
    if host.is_none() {
        let what = format!("`{}` must be a host", field.key);
        problems.push(field.error(what).allowed("a name or an address alone; the port has its own key"));
    }
    host
}

fn bare(text: &str) -> Option<String> {
    let inside = text.trim_start_matches('[').trim_end_matches(']');
    if inside.parse::<Ipv6Addr>().is_ok() {
        return Some(inside.to_owned());
    }
    let is_name = !text.is_empty()
        && !text.contains([':', '/', '@', '?', '#', '%', '[', ']'])
        && !text.contains(char::is_whitespace);
    is_name.then(|| text.to_owned())
}

pub(super) fn port(field: &Field<'_>, problems: &mut Problems) -> Option<u16> {
    let text = field.text(problems)?;
    let port = number::count(text).and_then(|port| u16::try_from(port).ok()).filter(|&port| port > 0);
    if port.is_none() {
        problems.push(field.error(format!("`{}` must be a port", field.key)).allowed("1 to 65535"));
    }
    port
}

/// JSON inside a text as if it stood there as YAML.
fn written(json: &serde_json::Value, whole: &Node) -> Node {
    let scalar = |text: String, plain: bool| {
        let variable = match &whole.value {
            Value::Scalar(scalar) => scalar.variable.clone(),
            _ => None,
        };
        Value::Scalar(Scalar { text, plain, variable })
    };
    let value = match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::String(text) => scalar(text.clone(), false),
        serde_json::Value::Bool(_) | serde_json::Value::Number(_) => scalar(json.to_string(), true),
        serde_json::Value::Array(items) => {
            Value::List(items.iter().map(|item| written(item, whole)).collect())
        }
        serde_json::Value::Object(map) => Value::Map(Map(map
            .iter()
            .map(|(key, value)| Entry {
                key: key.clone(),
                place: whole.place.clone(),
                node: written(value, whole),
            })
            .collect())),
    };
    Node { value, place: whole.place.clone() }
}
