//! The codec against golden files and small tables.
use super::*;
use serde_json::value::RawValue;
use std::path::Path;

fn upstream(defaults: &[(&str, &str)]) -> Upstream {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    Upstream {
        base: "http://provider.test/v1".into(),
        key: Some(Secret::new("sk-provider".into())),
        model: "m".into(),
        defaults: defaults.iter().map(|(name, value)| ((*name).to_owned(), raw(value))).collect(),
    }
}

fn chat(body: &str) -> Prompt {
    Prompt::parse(Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

/// Each case of tests/golden/providers/openai is a body (`*.in.json`), what the provider gets for it (`*.out.json`)
/// and, if there are any, the deployment's defaults (`*.defaults.json`).
#[test]
fn the_provider_gets_what_the_golden_files_say() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/providers/openai");
    let mut cases = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".in.json")) else {
            continue;
        };
        let read = |kind: &str| std::fs::read_to_string(dir.join(format!("{name}.{kind}.json")));
        let defaults = read("defaults").unwrap_or_else(|_| "{}".into());
        let fields = Fields::read(&defaults).unwrap();
        let defaults: Vec<(&str, &str)> = fields
            .iter()
            .map(|field| {
                let name = std::str::from_utf8(field.plain_name(defaults.as_bytes())).unwrap();
                (name, &defaults[field.value.clone()])
            })
            .collect();
        let out = encode(&chat(&read("in").unwrap()), &upstream(&defaults), "gpt-\"real\"");
        assert_eq!(std::str::from_utf8(&out).unwrap(), read("out").unwrap(), "{name}");
        serde_json::from_slice::<serde::de::IgnoredAny>(&out).unwrap();
        cases += 1;
    }
    assert!(cases >= 8, "only {cases} golden files found");
}

#[test]
fn fields_of_the_gateway_are_left_out_wherever_they_stand() {
    let kept = [r#""model":"x""#, r#""messages":[]"#];
    let own = [r#""timeout":5"#, r#""mock_testing_fallbacks":true"#, r#""num_retries" : 1"#];
    for places in 0..27 {
        let mut fields: Vec<&str> = kept.to_vec();
        for (at, field) in [places % 3, places / 3 % 3, places / 9].into_iter().zip(own) {
            fields.insert(at, field);
        }
        for separator in [",", " , ", ",\n  "] {
            let body = format!("{{{}}}", fields.join(separator));
            let out = encode(&chat(&body), &upstream(&[]), "m");
            let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(value, serde_json::json!({"model": "m", "messages": []}), "{body}");
        }
    }
}

#[test]
fn stream_options_keep_their_other_members() {
    let table = [
        (None, r#"{"include_usage":true}"#),
        (Some("null"), r#"{"include_usage":true}"#),
        (Some("{}"), r#"{"include_usage":true}"#),
        (Some("{ }"), r#"{"include_usage":true }"#),
        (Some(r#"{"a":1.0}"#), r#"{"include_usage":true,"a":1.0}"#),
        (Some(r#"{"include_usage":false,"a":1.0}"#), r#"{"include_usage":true,"a":1.0}"#),
        (Some(r#"{"include_usage": true}"#), r#"{"include_usage": true}"#),
        (Some("7"), "7"),
    ];
    for (given, want) in table {
        assert_eq!(asking_for_usage(given), want, "{given:?}");
    }
}

#[test]
fn a_provider_that_refuses_the_question_about_usage_gets_the_clients_options_alone() {
    let asked = chat(r#"{"model":"x","messages":[],"stream":true,"stream_options":{"a":1}}"#);
    let out = encode_asking(&asked, &upstream(&[]), "m", AskUsage::AsTheClientDid);
    assert_eq!(&out[..], br#"{"model":"m","messages":[],"stream":true,"stream_options":{"a":1}}"#);
}

#[test]
fn the_request_carries_the_deployments_key_and_nothing_of_the_client() {
    let request = request(&upstream(&[]), Endpoint::Chat, Bytes::new()).unwrap();
    assert_eq!(request.uri(), "http://provider.test/v1/chat/completions");
    let mut headers: Vec<(&str, &str)> =
        request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    headers.sort_unstable();
    let agent = concat!("onegate/", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        headers,
        [
            ("accept-encoding", "identity"),
            ("authorization", "Bearer sk-provider"),
            ("content-type", "application/json"),
            ("user-agent", agent)
        ]
    );
    assert!(!format!("{request:?}").contains("sk-provider"));
}

#[test]
fn a_key_or_address_that_cannot_be_sent_is_a_failure_before_sending() {
    let bad_key = Upstream { key: Some(Secret::new("a\nb".into())), ..upstream(&[]) };
    let failure = request(&bad_key, Endpoint::Chat, Bytes::new()).unwrap_err();
    assert!(!failure.sent && failure.message.contains("api_key"), "{failure:?}");
    let bad_base = Upstream { base: "http://a b".into(), ..upstream(&[]) };
    let failure = request(&bad_base, Endpoint::Chat, Bytes::new()).unwrap_err();
    assert!(!failure.sent && failure.message.contains("api_base"), "{failure:?}");
}

#[test]
fn a_200_gives_its_usage_or_is_a_failure() {
    let usage = |body: &str| decode(body.as_bytes(), None);
    let answer =
        r#"{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    assert_eq!(usage(answer).unwrap(), Some(Usage { input: 3, output: 2 }));
    assert_eq!(usage(r#"{"choices":[{"message":{"content":"x"}}],"usage":null}"#).unwrap(), None);
    assert_eq!(usage(r#"{"vendor":1}"#).unwrap(), None);
    let table = [
        (r#"{"error":{"message":"engine lost","type":"server_error","code":502}}"#, FailureKind::Server),
        (r#"{"error":{"message":"x"},"choices":[]}"#, FailureKind::Server),
        (
            r#"{"choices":[{"message":{"content":null},"finish_reason":"content_filter"}]}"#,
            FailureKind::ContentPolicy,
        ),
        ("<html></html>", FailureKind::Malformed),
        ("", FailureKind::Malformed),
        ("null", FailureKind::Malformed),
    ];
    for (body, kind) in table {
        assert_eq!(usage(body).unwrap_err().kind, kind, "{body}");
    }
}
