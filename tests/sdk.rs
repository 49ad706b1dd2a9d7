//! The official `openai` Python SDK, unchanged but for `base_url`, against the demo.
use harness::{Launch, workspace};
use std::process::Command;

#[tokio::test]
async fn the_openai_sdk_gets_a_plain_and_a_streamed_answer_from_the_demo() {
    let python = workspace().join("target/venv/bin/python");
    assert!(
        python.exists(),
        "target/venv is missing: ./test makes it, with the SDK that tests/sdk/requirements.txt pins"
    );
    let demo = Launch::demo().start().await;
    demo.ready().await;

    let asked = Command::new(python)
        .arg(workspace().join("tests/sdk/chat.py"))
        .arg(format!("http://{}/v1", demo.address()))
        .output()
        .expect("the venv's python runs");

    let text = String::from_utf8_lossy(&asked.stdout);
    assert!(asked.status.success(), "{text}{}", String::from_utf8_lossy(&asked.stderr));
    assert!(text.contains("plain: ") && text.contains("streamed: "), "{text}");
}
