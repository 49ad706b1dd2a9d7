//! Drafts become the catalog's groups: ids are given out, defaults filled in, names entered.
use super::model_list::Draft;
use super::problem::{Problem, Problems};
use crate::catalog::{Deployment, Group, Target, Upstream};
use ledger::Member;
use routing::Names;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What a deployment has that names no timeout of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Of a plain call.
    pub(super) timeout: Duration,
    /// The router's for streams, if it has one; else a stream is bound by its deployment's `timeout`.
    pub(super) stream_timeout: Option<Duration>,
}

/// One id a draft, in their order. An id stands once in a config.
pub(super) fn ids(drafts: &[Draft<'_>], problems: &mut Problems) -> Vec<Arc<str>> {
    let mut given: BTreeMap<&str, usize> = BTreeMap::new();
    for draft in drafts {
        let Some(field) = &draft.id else { continue };
        let mut ignored = Problems::default();
        let Some(id) = field.text(&mut ignored) else { continue };
        if let Some(line) = given.get(id) {
            let what = format!("the id {} is given twice", field.named());
            let problem =
                field.error(what).found(format!("line {line}, and again line {}", field.node.place.line()));
            problems.push(problem.allowed("an id once in all of `model_list`"));
        } else {
            given.insert(id, field.node.place.line());
        }
    }
    let mut taken: BTreeSet<String> = given.keys().map(|&id| id.to_owned()).collect();
    let mut ignored = Problems::default();
    drafts
        .iter()
        .map(|draft| match draft.id.as_ref().and_then(|field| field.text(&mut ignored)) {
            Some(id) => id.into(),
            None => free(&draft.fingerprint, &mut taken).into(),
        })
        .collect()
}

/// Equal entries are told apart by their order.
fn free(fingerprint: &str, taken: &mut BTreeSet<String>) -> String {
    let mut id = fingerprint.to_owned();
    let mut number = 2_usize;
    while !taken.insert(id.clone()) {
        id = format!("{fingerprint}-{number}");
        number += 1;
    }
    id
}

/// The groups, in the order in which their names appear, and the names for them.
pub(super) fn groups(drafts: Vec<Draft<'_>>, ids: &[Arc<str>], timeouts: Timeouts) -> (Vec<Group>, Names) {
    let mut names = Names::default();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<Arc<Deployment>>> = Vec::new();
    let mut titles: Vec<Arc<str>> = Vec::new();
    for (draft, id) in drafts.into_iter().zip(ids) {
        let number = *numbers.entry(draft.group.to_owned()).or_insert_with(|| {
            let name: Arc<str> = draft.group.into();
            names.add_group(Arc::clone(&name), groups.len());
            titles.push(name);
            groups.push(Vec::new());
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(number) {
            names.add_id(Arc::clone(id), number, group.len());
            group.push(Arc::new(deployment(draft, id, timeouts)));
        }
    }
    let groups = titles.into_iter().zip(groups).map(|(name, deployments)| group(name, deployments)).collect();
    (groups, names)
}

fn group(name: Arc<str>, deployments: Vec<Arc<Deployment>>) -> Group {
    Group {
        routing: routing::Group {
            name: Arc::clone(&name),
            deployments: deployments.iter().map(|deployment| Arc::clone(&deployment.facts)).collect(),
        },
        ledger: ledger::Group {
            name: Arc::clone(&name),
            members: deployments.iter().map(|deployment| deployment.member.clone()).collect(),
        },
        name,
        deployments,
    }
}

fn deployment(draft: Draft<'_>, id: &Arc<str>, timeouts: Timeouts) -> Deployment {
    let endpoint = draft.endpoint;
    let target = match endpoint.mock {
        Some(text) => Target::Mock { text, model: endpoint.model },
        None => Target::Upstream(Upstream {
            base: endpoint.base,
            key: endpoint.key,
            model: endpoint.model,
            defaults: draft.defaults,
        }),
    };
    let timeout = draft.timeout.unwrap_or(timeouts.timeout);
    Deployment {
        facts: Arc::new(routing::Deployment {
            id: Arc::clone(id),
            order: draft.order,
            weight: draft.weight,
            rpm: draft.rpm,
            tpm: draft.tpm,
            blocked: draft.blocked,
            price: draft.price,
        }),
        member: Member { id: Arc::clone(id), model: draft.model.into() },
        target,
        timeout,
        stream_timeout: draft.stream_timeout.or(timeouts.stream_timeout).unwrap_or(timeout),
        num_retries: draft.num_retries,
        cooldown: draft.cooldown,
        allowed_fails: draft.allowed_fails,
    }
}

/// Warns of deployments that simple-shuffle never picks: it goes by the first of weight, rpm and tpm that any
/// deployment of a tier has, and who lacks it has a share of 0.
pub(super) fn warn_of_starved(drafts: &[Draft<'_>], problems: &mut Problems) {
    let mut tiers: BTreeMap<(&str, Option<i64>), Vec<&Draft<'_>>> = BTreeMap::new();
    for draft in drafts {
        tiers.entry((draft.group, draft.order)).or_default().push(draft);
    }
    for tier in tiers.into_values() {
        let used = ["weight", "rpm", "tpm"]
            .into_iter()
            .find(|&key| tier.iter().any(|draft| has_share(draft, key) == Some(true)));
        let Some(key) = used else { continue };
        for draft in tier.iter().filter(|draft| has_share(draft, key).is_none()) {
            let what = format!("this deployment of {} gets no traffic", draft.shown_group);
            problems.push(
                Problem::warning(what, draft.place, &draft.path)
                    .found(format!("no `{key}`, while others of the group have one"))
                    .allowed(format!("`{key}` for all deployments of a group, or for none")),
            );
        }
    }
}

/// Whether it has this key, and more than 0 of it.
fn has_share(draft: &Draft<'_>, key: &str) -> Option<bool> {
    match key {
        "weight" => draft.weight.map(|weight| weight > 0.0),
        "rpm" => draft.rpm.map(|rpm| rpm > 0),
        _ => draft.tpm.map(|tpm| tpm > 0),
    }
}
