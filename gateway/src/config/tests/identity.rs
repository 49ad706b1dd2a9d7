//! Ids of deployments that name none.
use super::read;

fn ids(entries: &[&str]) -> Vec<String> {
    let text =
        format!("model_list:\n{}", entries.iter().map(|entry| format!("- {entry}\n")).collect::<String>());
    let catalog = read(&text).unwrap().catalog;
    catalog
        .groups
        .iter()
        .flat_map(|group| group.deployments.iter().map(|deployment| deployment.facts.id.to_string()))
        .collect()
}

const ONE: &str =
    "{model_name: chat, litellm_params: {model: openai/m, api_key: sk-one, rpm: 5, metadata: {a: 1, b: 2}}}";

#[test]
fn an_id_is_sixteen_hex_digits_and_the_same_on_every_run() {
    // A change here gives every deployment without an id new counters: it belongs in the release notes.
    assert_eq!(ids(&[ONE]), ["8290b691495cb732"]);
}

#[test]
fn the_order_of_keys_and_of_other_entries_does_not_matter() {
    let turned = "{litellm_params: {metadata: {b: 2, a: 1}, rpm: 5, api_key: sk-one, model: openai/m}, model_name: chat}";
    let other = "{model_name: chat, litellm_params: {model: openai/other, api_key: sk-one}}";
    assert_eq!(ids(&[ONE]), ids(&[turned]));
    assert_eq!(ids(&[ONE, other])[0], ids(&[other, ONE])[1]);
}

#[test]
fn a_new_limit_or_price_leaves_the_id_and_what_is_called_makes_it() {
    assert_eq!(ids(&[ONE]), ids(&[&ONE.replace("rpm: 5", "rpm: 6, weight: 2, input_cost_per_token: 1e-6")]));
    assert_ne!(ids(&[ONE]), ids(&[&ONE.replace("a: 1", "a: 3")]));
    assert_ne!(ids(&[ONE]), ids(&[&ONE.replace("openai/m", "openai/n")]));
}

#[test]
fn two_keys_for_one_endpoint_are_two_deployments() {
    let ids = ids(&[ONE, &ONE.replace("sk-one", "sk-two")]);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn the_group_is_part_of_the_id() {
    assert_ne!(ids(&[ONE]), ids(&[&ONE.replace("chat", "talk")]));
}

#[test]
fn equal_entries_are_numbered_and_a_written_id_is_never_given_twice() {
    let base = ids(&[ONE])[0].clone();
    assert_eq!(ids(&[ONE, ONE, ONE]), [base.clone(), format!("{base}-2"), format!("{base}-3")]);
    let taken =
        format!("{{model_name: chat, litellm_params: {{model: m, api_key: k}}, model_info: {{id: {base}}}}}");
    assert_eq!(ids(&[ONE, &taken]), [format!("{base}-2"), base]);
}
