//! `model_list`: every entry becomes a draft of a deployment, which ids and groups then complete.
use super::identity;
use super::json;
use super::keys;
use super::known;
use super::problem::{Path, Place, Problem, Problems};
use super::read::{Field, Section};
use super::secrets;
use super::tree::Value;
use super::upstream::{self, Endpoint};
use routing::Price;
use serde_json::value::RawValue;
use std::time::Duration;

/// An entry of `model_list`, read.
pub(super) struct Draft<'t> {
    pub(super) group: &'t str,
    /// The group as messages show it.
    pub(super) shown_group: String,
    /// Whether messages may show the group's name.
    pub(super) is_shown: bool,
    /// `model_info.id`.
    pub(super) id: Option<Field<'t>>,
    /// The id that it has without one.
    pub(super) fingerprint: String,
    /// `litellm_params.model` as configured.
    pub(super) model: &'t str,
    pub(super) endpoint: Endpoint,
    pub(super) defaults: Vec<(String, Box<RawValue>)>,
    pub(super) order: Option<i64>,
    pub(super) weight: Option<f64>,
    pub(super) rpm: Option<u64>,
    pub(super) tpm: Option<u64>,
    pub(super) price: Option<Price>,
    pub(super) blocked: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) stream_timeout: Option<Duration>,
    pub(super) num_retries: Option<u32>,
    pub(super) cooldown: Option<Duration>,
    pub(super) allowed_fails: Option<u64>,
    pub(super) place: &'t Place,
    pub(super) path: Path,
}

/// Every entry that names its group.
pub(super) fn read<'t>(
    top: &Section<'t>,
    whole: &Place,
    openai_key: Option<&str>,
    problems: &mut Problems,
) -> Vec<Draft<'t>> {
    let Some(field) = top.get("model_list") else {
        let missing = !top.keys().any(|field| meant(&field, "model_list", &keys::TOP));
        if missing {
            let path = Path::default().key("model_list");
            let null = top.keys().find(|field| field.key == "model_list");
            problems.push(
                Problem::error("`model_list` is missing", null.map_or(whole, |field| field.key_place), &path)
                    .found("nothing")
                    .allowed("a list of at least one entry with `model_name` and `litellm_params`"),
            );
        }
        return Vec::new();
    };
    let Some(items) = field.list(problems) else { return Vec::new() };
    if items.is_empty() {
        problems.push(field.error("`model_list` is empty").allowed("a list of at least one entry"));
    }
    items.iter().filter_map(|item| entry(item, openai_key, problems)).collect()
}

fn entry<'t>(item: &Field<'t>, openai_key: Option<&str>, problems: &mut Problems) -> Option<Draft<'t>> {
    let entry = item.section(problems)?;
    known::check(&entry, &keys::ENTRY, problems);
    let group = required(&entry, "model_name", &keys::ENTRY, problems);
    let group = group.and_then(|field| Some((field.name(problems)?, field)));
    let params = required(&entry, "litellm_params", &keys::ENTRY, problems);
    let params = params.and_then(|field| field.section(problems));
    let info = entry.section("model_info", problems);
    check_info(&info, problems);
    let empty = Section { entries: &[], path: entry.path.key("litellm_params"), place: entry.place };
    let absent = params.is_none();
    let params = params.unwrap_or(empty);
    let defaults = body_defaults(&params, problems);
    let model = if absent { None } else { required(&params, "model", &keys::PARAMS, problems) };
    let model = model.and_then(|field| Some((field.name(problems)?, field)));
    let endpoint = upstream::endpoint(&params, model.as_ref(), openai_key, problems);
    let fingerprint = identity::fingerprint(group.as_ref().map_or("", |(name, _)| name), &params);
    let order = first(&[&params, &info], "order", Field::whole, problems);
    let weight = params.read("weight", Field::number, problems);
    let (group, group_field) = group?;
    Some(Draft {
        group,
        shown_group: group_field.named(),
        is_shown: !group_field.is_from_environment(),
        id: info.get("id").filter(|id| id.name(problems).is_some()),
        fingerprint,
        model: model.map(|(model, _)| model).unwrap_or_default(),
        endpoint,
        defaults,
        order,
        weight,
        // A limit at the entry is copied over the other two in LiteLLM.
        rpm: first(&[&entry, &params, &info], "rpm", Field::count, problems),
        tpm: first(&[&entry, &params, &info], "tpm", Field::count, problems),
        price: price(&params, &info, problems),
        blocked: info.read("blocked", Field::flag, problems).unwrap_or(false),
        timeout: first_timeout(&params, problems),
        stream_timeout: params.read("stream_timeout", Field::timeout, problems),
        num_retries: params.read("num_retries", Field::few, problems),
        cooldown: first(&[&info, &params], "cooldown_time", Field::seconds, problems),
        allowed_fails: info.read("allowed_fails", Field::count, problems),
        place: &item.node.place,
        path: item.path.clone(),
    })
}

/// Whether this key is unknown and was probably meant to be `key`: then `key` is not reported missing, too.
fn meant(field: &Field<'_>, key: &str, keys: &known::Keys) -> bool {
    let near = keys.nearest(field.key).filter(|(_, distance)| known::is_near(field.key, *distance));
    !keys.acts_on(field.key) && near.is_some_and(|(near, _)| near == key)
}

fn required<'t>(
    section: &Section<'t>,
    key: &str,
    keys: &known::Keys,
    problems: &mut Problems,
) -> Option<Field<'t>> {
    let field = section.get(key);
    if field.is_none()
        && !section.keys().any(|field| meant(&field, key, keys))
        && let Some(place) = section.place
    {
        let problem = Problem::error(format!("`{key}` is missing"), place, &section.path.key(key));
        problems.push(problem.found("nothing"));
    }
    field
}

/// The first of these sections that has the key gives it; all are read, so that no fault stays hidden.
fn first<'t, T>(
    sections: &[&Section<'t>],
    key: &str,
    how: impl Fn(&Field<'t>, &mut Problems) -> Option<T>,
    problems: &mut Problems,
) -> Option<T> {
    let values: Vec<_> = sections.iter().filter_map(|section| section.read(key, &how, problems)).collect();
    values.into_iter().next()
}

fn first_timeout(params: &Section<'_>, problems: &mut Problems) -> Option<Duration> {
    let timeout = params.read("timeout", Field::timeout, problems);
    let request_timeout = params.read("request_timeout", Field::timeout, problems);
    timeout.or(request_timeout)
}

/// A price with one side given has 0 on the other: embeddings have no output.
fn price(params: &Section<'_>, info: &Section<'_>, problems: &mut Problems) -> Option<Price> {
    let input = first(&[params, info], "input_cost_per_token", Field::number, problems);
    let output = first(&[params, info], "output_cost_per_token", Field::number, problems);
    (input.is_some() || output.is_some())
        .then(|| Price { input: input.unwrap_or(0.0), output: output.unwrap_or(0.0) })
}

/// `model_info` may hold anything, but what is nearly a key that we read was probably meant as it.
fn check_info(info: &Section<'_>, problems: &mut Problems) {
    for field in info.fields() {
        if keys::INFO.acts_on(field.key) {
            continue;
        }
        if keys::INFO.ignores(field.key) {
            problems.push(known::ignored(&field));
        } else if let Some((near, 1)) = keys::INFO.nearest(field.key) {
            let what = format!("`{}` means nothing in `model_info`", secrets::shown_key(field.key));
            let problem = Problem::warning(what, &field.node.place, &field.path);
            problems.push(problem.allowed(format!("anything; the nearest key that is read is `{near}`")));
        }
    }
}

/// What is no key of ours, nor nearly one, is a default for the body sent to the provider.
fn body_defaults(params: &Section<'_>, problems: &mut Problems) -> Vec<(String, Box<RawValue>)> {
    let mut defaults = Vec::new();
    for field in params.keys() {
        let has_value = !matches!(field.node.value, Value::Null);
        if field.key == "max_retries" && has_value {
            let problem =
                field.warning("`max_retries` has no effect: the gateway's own retries are the only ones");
            problems.push(problem.allowed("`num_retries`"));
        } else if keys::PARAMS.acts_on(field.key) {
        } else if keys::PARAMS.ignores(field.key) {
            if has_value {
                problems.push(known::ignored(&field));
            }
        } else if !json::is_body_field(field.key) && is_slip(field.key) {
            problems.push(known::unknown(&field, &keys::PARAMS));
        } else if has_value {
            match json::body_value(field.key, field.node) {
                Ok(value) => defaults.push((field.key.to_owned(), value)),
                Err(allowed) => {
                    let what = format!("`{}` cannot be sent to the provider", secrets::shown_key(field.key));
                    problems.push(field.error(what).allowed(allowed));
                }
            }
        }
    }
    defaults
}

fn is_slip(key: &str) -> bool {
    let swallowed_its_value = secrets::shown_key(key) != key;
    swallowed_its_value || keys::PARAMS.nearest(key).is_some_and(|(_, distance)| distance <= 2)
}
