//! The groups that a request visits when all of them fail.
use super::*;
use crate::config::{Environment, load_text};

fn catalog(router_settings: &str) -> Catalog {
    let mut text = format!("router_settings: {{{router_settings}}}\nmodel_list:\n");
    for name in ["one", "two", "three", "four"] {
        text += &format!(
            "  - {{model_name: {name}, litellm_params: {{model: m, mock_response: x}}, model_info: {{id: dep-{name}}}}}\n"
        );
    }
    load_text("test", &text, &Environment::default()).unwrap().catalog
}

/// The groups that a request for `name` visits if all fail, and whose refusal its caller sees.
fn check(router_settings: &str, name: &str, disabled: bool, visits: &[&str]) {
    let catalog = catalog(router_settings);
    let mut walk = Walk::begin(&catalog, name, disabled).unwrap();
    let mut visited = vec![walk.group().name.to_string()];
    let told = loop {
        let group = walk.group().name.clone();
        match walk.go_on(Miss::NoCandidate { group, why: "scripted".to_owned() }) {
            Ok(()) => visited.push(walk.group().name.to_string()),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(visited, visits);
    assert!(
        matches!(told, Refusal::NoCandidate { group, .. } if *group == *visits[0]),
        "not the first's word"
    );
}

#[test]
fn groups_are_visited_in_the_order_of_the_list() {
    check("fallbacks: [{one: [three, two]}]", "one", false, &["one", "three", "two"]);
}

#[test]
fn a_fallbacks_own_fallbacks_come_before_the_rest_of_the_list() {
    check("fallbacks: [{one: [two, four]}, {two: [three]}]", "one", false, &["one", "two", "three", "four"]);
}

#[test]
fn each_group_is_visited_once_though_the_lists_point_in_a_circle() {
    check("fallbacks: [{one: [two]}, {two: [one]}], default_fallbacks: [one]", "one", false, &["one", "two"]);
}

#[test]
fn the_walk_is_bounded() {
    let chain = "fallbacks: [{one: [two]}, {two: [three]}, {three: [four]}], max_fallbacks";
    check(&format!("{chain}: 2"), "one", false, &["one", "two", "three"]);
    check(&format!("{chain}: 0"), "one", false, &["one"]);
}

#[test]
fn a_request_may_forbid_fallbacks() {
    check("fallbacks: [{one: [two]}]", "one", true, &["one"]);
}

#[test]
fn star_and_default_serve_groups_without_an_entry_of_their_own() {
    check(r#"fallbacks: [{"*": [four]}, {two: [three]}]"#, "one", false, &["one", "four"]);
    check("fallbacks: [{two: [three]}], default_fallbacks: [four]", "one", false, &["one", "four"]);
    check("fallbacks: [{two: [three]}], default_fallbacks: [four]", "two", false, &["two", "three", "four"]);
}

#[test]
fn an_unknown_name_is_refused_unless_there_are_default_fallbacks() {
    let refused = catalog(r#"fallbacks: [{"*": [four]}]"#);
    let refusal = Walk::begin(&refused, "on", false).unwrap_err();
    assert!(matches!(refusal, Refusal::UnknownModel { near, .. } if near.contains(&"one".to_owned())));
    check("default_fallbacks: [four]", "unknown", false, &["four"]);
}
