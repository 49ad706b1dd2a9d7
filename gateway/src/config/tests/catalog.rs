//! What good files mean.
use super::super::{Environment, load_text};
use super::golden::good;
use super::{read, with_params};
use crate::catalog::{Catalog, Deployment, Target, TpmHold, Upstream};
use ledger::OnOutage;
use routing::{Names, Price, Strategy};
use std::sync::Arc;
use std::time::Duration;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn deployment(catalog: &Catalog, group: usize, place: usize) -> &Arc<Deployment> {
    &catalog.groups[group].deployments[place]
}

fn upstream(deployment: &Deployment) -> &Upstream {
    match &deployment.target {
        Target::Upstream(upstream) => upstream,
        Target::Mock { .. } => panic!("a mock"),
    }
}

fn body(upstream: &Upstream) -> Vec<(&str, &str)> {
    upstream.defaults.iter().map(|(key, value)| (key.as_str(), value.get())).collect()
}

#[test]
fn a_deployment_is_read_with_everything_that_it_says() {
    let catalog = good("full.yaml").unwrap().catalog;
    let first = deployment(&catalog, 0, 0);
    assert_eq!(first.facts.id.as_ref(), "chat-1");
    assert_eq!((first.facts.rpm, first.facts.tpm), (Some(10), Some(1000)));
    assert_eq!((first.facts.weight, first.facts.order), (Some(2.0), Some(1)));
    assert_eq!(first.facts.price, Some(Price { input: 1e-6, output: 2e-6 }));
    assert!(!first.facts.blocked);
    assert_eq!((first.timeout, first.stream_timeout), (seconds(30), Duration::from_millis(5500)));
    assert_eq!(
        (first.num_retries, first.cooldown, first.allowed_fails),
        (Some(0), Some(seconds(0)), Some(0))
    );
    assert_eq!(first.member.model.as_ref(), "openai/gpt-4o");
    let upstream = upstream(first);
    assert_eq!((upstream.base.as_str(), upstream.model.as_str()), ("https://one.example.org/v1", "gpt-4o"));
    assert_eq!(upstream.key.as_ref().unwrap().reveal(), "sk-from-the-environment");
}

#[test]
fn what_is_no_key_of_ours_becomes_a_body_default_with_its_type() {
    let catalog = good("full.yaml").unwrap().catalog;
    assert_eq!(
        body(upstream(deployment(&catalog, 0, 0))),
        [
            ("temperature", "0.5"),
            ("reasoning_depth", "\"deep\""),
            ("seed", "123456789012345678901234567890"),
            ("metadata", "{\"team\":\"on\",\"level\":3}"),
        ]
    );
}

#[test]
fn what_a_deployment_leaves_open_comes_from_the_router() {
    let catalog = good("full.yaml").unwrap().catalog;
    let second = deployment(&catalog, 0, 1);
    assert_eq!((second.timeout, second.stream_timeout), (seconds(40), seconds(8)));
    assert_eq!((second.num_retries, second.cooldown, second.allowed_fails), (None, Some(seconds(60)), None));
    assert_eq!((second.facts.rpm, second.facts.blocked), (Some(60), true));
    assert_eq!(second.facts.price, Some(Price { input: 0.5, output: 0.0 }));
    assert_eq!(upstream(second).base, "https://api.openai.com/v1");
    assert_eq!(upstream(second).model, "gpt-4o-mini");
}

#[test]
fn a_mock_needs_no_address_and_may_pretend_to_be_any_provider() {
    let catalog = good("full.yaml").unwrap().catalog;
    let Target::Mock { text, model } = &deployment(&catalog, 2, 0).target else { panic!("no mock") };
    assert_eq!((text.as_str(), model.as_str()), ("Hello there", "azure/anything"));
}

#[test]
fn the_router_is_set_by_its_section_and_by_the_one_that_shares_its_keys() {
    let settings = good("full.yaml").unwrap().catalog.settings;
    assert_eq!(settings.strategy, Strategy::UsageBasedV2);
    assert!(settings.limits_bind && !settings.pre_call_checks && !settings.cooldowns_disabled);
    assert_eq!((settings.num_retries, settings.max_fallbacks), (3, 1));
    assert_eq!((settings.retry_after, settings.cooldown), (seconds(1), seconds(7)));
    assert_eq!(settings.allowed_fails, Some(4));
    assert_eq!(settings.tpm_hold, TpmHold::Expected);
    assert_eq!(good("names.yaml").unwrap().catalog.settings.tpm_hold, TpmHold::Input);
    assert_eq!(settings.fallbacks["chat"], ["prov/x", "mock"]);
    assert_eq!(settings.fallbacks["*"], ["mock"]);
    assert_eq!(settings.default_fallbacks, ["chat", "mock"]);
}

#[test]
fn groups_aliases_and_ids_all_have_names() {
    let catalog = good("full.yaml").unwrap().catalog;
    let mut names = Names::default();
    for (number, group) in ["chat", "prov/*", "mock"].into_iter().enumerate() {
        names.add_group(group.into(), number);
    }
    names.add_alias("nick".into(), 0);
    names.add_alias("other".into(), 2);
    names.hide_alias("other");
    for (number, group) in catalog.groups.iter().enumerate() {
        for (place, member) in group.ledger.members.iter().enumerate() {
            assert_eq!(group.routing.deployments[place].id, member.id);
            names.add_id(Arc::clone(&member.id), number, place);
        }
    }
    assert_eq!(catalog.names, names);
}

#[test]
fn what_is_done_in_an_outage_is_one_word_or_one_for_limits_and_one_for_budgets() {
    let outage = |settings: &str| {
        let models = "model_list: [{model_name: a, litellm_params: {model: m, mock_response: x}}]";
        let text =
            format!("{models}\nrouter_settings: {{redis_host: h}}\nonegate_settings: {{ledger: {settings}}}");
        let loaded = read(&text).unwrap();
        let outage = loaded.catalog.settings.outage;
        assert_eq!(loaded.redis.unwrap().on_outage, outage.limits);
        (outage.limits, outage.budgets)
    };
    assert_eq!(outage("{}"), (OnOutage::Local, OnOutage::Local));
    assert_eq!(outage("{on_outage: deny}"), (OnOutage::Deny, OnOutage::Deny));
    assert_eq!(outage("{on_outage: {limits: allow, budgets: deny}}"), (OnOutage::Allow, OnOutage::Deny));
    assert_eq!(outage("{on_outage: {budgets: allow}}"), (OnOutage::Local, OnOutage::Allow));
}

#[test]
fn without_settings_the_defaults_are_litellms() {
    let loaded = with_params("").unwrap();
    let settings = &loaded.catalog.settings;
    assert_eq!(settings.strategy, Strategy::SimpleShuffle);
    assert!(!settings.limits_bind);
    assert_eq!((settings.num_retries, settings.max_fallbacks), (2, 5));
    assert_eq!((settings.retry_after, settings.cooldown), (seconds(0), seconds(5)));
    assert_eq!((settings.allowed_fails, loaded.redis.is_none()), (None, true));
    let only = deployment(&loaded.catalog, 0, 0);
    assert_eq!((only.timeout, only.stream_timeout), (seconds(600), seconds(600)));
    assert_eq!(only.facts.price, None);
}

#[test]
fn a_stream_is_bound_by_its_deployments_timeout_where_nothing_else_is_said() {
    let loaded = with_params(", request_timeout: 20").unwrap();
    let only = deployment(&loaded.catalog, 0, 0);
    assert_eq!((only.timeout, only.stream_timeout), (seconds(20), seconds(20)));
}

#[test]
fn pre_call_checks_make_limits_bind_under_any_strategy() {
    for (setting, binds) in [
        ("{enable_pre_call_checks: true}", true),
        ("{optional_pre_call_checks: [enforce_model_rate_limits]}", true),
        ("{routing_strategy: cost-based-routing}", true),
        ("{routing_strategy: simple-shuffle}", false),
    ] {
        let text = format!(
            "model_list: [{{model_name: a, litellm_params: {{model: m}}}}]\nrouter_settings: {setting}"
        );
        assert_eq!(read(&text).unwrap().catalog.settings.limits_bind, binds, "{setting}");
    }
}

#[test]
fn names_that_look_like_numbers_dates_or_flags_stay_text() {
    let catalog = good("names.yaml").unwrap().catalog;
    let names: Vec<_> = catalog.groups.iter().map(|group| group.name.as_ref()).collect();
    assert_eq!(names, ["4", "on", "2024-05-01", "1_000", "null", "llama3:8b"]);
}

#[test]
fn anchors_merges_and_aliases_give_what_they_copy() {
    let catalog = good("anchors.yaml").unwrap().catalog;
    let limits: Vec<_> =
        catalog.groups[0].deployments.iter().map(|d| (d.facts.rpm, d.member.model.as_ref())).collect();
    assert_eq!(limits, [(Some(20), "openai/a"), (Some(30), "openai/b"), (Some(30), "openai/b")]);
    assert!(catalog.groups[0].deployments.iter().all(|d| upstream(d).base == "http://127.0.0.1:8080/v1"));
}

#[test]
fn an_include_appends_lists_and_replaces_other_sections_whole() {
    let catalog = good("include.yaml").unwrap().catalog;
    let names: Vec<_> = catalog.groups.iter().map(|group| group.name.as_ref()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!((catalog.settings.num_retries, catalog.settings.allowed_fails), (6, None));
}

#[test]
fn the_environment_lies_over_the_file_and_an_empty_variable_does_nothing() {
    let loaded = good("overridden.yaml").unwrap();
    assert_eq!(loaded.catalog.settings.num_retries, 4);
    let redis = loaded.redis.unwrap();
    assert_eq!((super::redis::single(&redis).0.as_str(), redis.namespace.as_str()), ("redis:6379", "green"));
}

#[test]
fn a_reference_takes_the_type_of_its_place_and_the_files_own_variables_come_first() {
    let text = "environment_variables: {RPM: 7, COPY: os.environ/OUTER}\nmodel_list:\n\
                - {model_name: a, litellm_params: {model: m, api_key: os.environ/COPY, rpm: os.environ/RPM, tpm: os.environ/TPM,\
                 temperature: os.environ/TPM, user: os.environ/TPM, stop: [os.environ/OUTER]}}";
    let environment = Environment::of([("RPM", "5"), ("OUTER", "k"), ("TPM", "0123")]);
    let catalog = load_text("config.yaml", text, &environment).unwrap().catalog;
    let only = deployment(&catalog, 0, 0);
    assert_eq!((only.facts.rpm, only.facts.tpm), (Some(7), Some(123)));
    assert_eq!(upstream(only).key.as_ref().unwrap().reveal(), "k");
    assert_eq!(body(upstream(only)), [("temperature", "123"), ("user", "\"0123\""), ("stop", "[\"k\"]")]);
}

#[test]
fn the_environments_openai_key_goes_to_openai_alone() {
    let text = "model_list:\n- {model_name: a, litellm_params: {model: m}}\n\
                - {model_name: b, litellm_params: {model: m, api_base: 'http://other/v1'}}";
    let catalog =
        load_text("config.yaml", text, &Environment::of([("OPENAI_API_KEY", "sk-e")])).unwrap().catalog;
    assert_eq!(upstream(deployment(&catalog, 0, 0)).key.as_ref().unwrap().reveal(), "sk-e");
    assert!(upstream(deployment(&catalog, 1, 0)).key.is_none());
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_change_nothing() {
    let text = "\u{feff}model_list:\r\n  - model_name: chat\r\n    litellm_params: {model: m, api_key: k}\r\n\
                router_settings:\r\n  num_retries: 1\r\n";
    let catalog = read(text).unwrap().catalog;
    assert_eq!((catalog.groups[0].name.as_ref(), catalog.settings.num_retries), ("chat", 1));
}

#[test]
fn a_master_key_is_taken_as_text_and_never_printed() {
    let loaded = read(
        "model_list: [{model_name: a, litellm_params: {model: m, api_key: sk-upstream}}]\n\
         general_settings: {master_key: 1234}\nrouter_settings: {redis_host: h, redis_password: hunter2}",
    )
    .unwrap();
    assert_eq!(loaded.catalog.master_key.as_ref().unwrap().reveal(), "1234");
    let debug = format!("{loaded:?}");
    assert!(
        !debug.contains("1234") && !debug.contains("sk-upstream") && !debug.contains("hunter2"),
        "{debug}"
    );
}
