//! The program's other subcommands, and how it ends.
use super::deployment;
use harness::{Replica, ScriptedProvider, once};

const FAULTY: &str = "
model_list:
  - model_name: chat
    litellm_params: {model: openai/m, api_bas: nowhere}
router_setings: {num_retries: 1}
";

#[tokio::test]
async fn check_passes_a_good_file_and_names_every_fault_of_a_bad_one() {
    let provider = ScriptedProvider::start().await;
    let good = once("check", &format!("model_list:\n{}", deployment(&provider, "chat", "a", "")), &[]);
    assert_eq!(good.code, Some(0), "{}", good.text);

    let bad = once("check", FAULTY, &[]);
    assert_eq!(bad.code, Some(1), "{}", bad.text);
    for word in ["api_bas", "api_base", "router_setings", "router_settings", "config.yaml"] {
        assert!(bad.text.contains(word), "`{word}` is not in: {}", bad.text);
    }
}

#[tokio::test]
async fn explain_names_the_deployment_and_calls_nobody() {
    let provider = ScriptedProvider::start().await;
    let config = format!("model_list:\n{}", deployment(&provider, "chat", "dep-a", ""));

    let explained = once("explain", &config, &["--model", "chat"]);

    assert_eq!(explained.code, Some(0), "{}", explained.text);
    assert!(explained.text.contains("dep-a"), "{}", explained.text);
    assert_eq!(provider.hits("dep-a"), 0);
}

#[tokio::test]
async fn a_faulty_file_does_not_start() {
    let refused = once("serve", FAULTY, &["--port", "0"]);

    assert_eq!(refused.code, Some(1), "{}", refused.text);
    assert!(refused.text.contains("api_bas"), "{}", refused.text);
}

#[tokio::test]
async fn sigterm_ends_it_with_exit_code_0() {
    let provider = ScriptedProvider::start().await;
    let gateway = Replica::start(&format!("model_list:\n{}", deployment(&provider, "chat", "a", ""))).await;

    let ended = gateway.stop().await;

    assert_eq!(ended.code, Some(0), "{}", ended.text);
}
