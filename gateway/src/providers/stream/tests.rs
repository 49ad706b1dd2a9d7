//! Streams from memory: what opens them, what ends them, what they pass on.
use super::*;

const LONG: Duration = Duration::from_secs(30);
const ROLE: &str =
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const ONE: &str = r#"{"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"one "}}]}"#;
const TWO: &str = r#"{"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"two"}}]}"#;
const STOP: &str = r#"{"id":"x","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str =
    r#"{"id":"x","model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}"#;
const ERROR: &str = r#"{"error":{"message":"lost sk-1","type":"server_error","code":500}}"#;

fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

async fn open(bytes: &str, wants_usage: bool) -> Result<Stream, Failure> {
    let source = Source::Memory(VecDeque::from([Bytes::copy_from_slice(bytes.as_bytes())]));
    let key = Some(Secret::new("sk-1".into()));
    Stream::open(source, Limit::new(LONG, "stream_timeout"), LONG, wants_usage, key).await
}

/// All that the client gets, and the failure that ended it.
async fn drain(stream: &mut Stream) -> (String, Option<Failure>) {
    let (mut text, mut failure) = (String::new(), None);
    while let Some(item) = stream.next().await {
        assert_eq!(failure, None, "an item after the failure");
        match item {
            Item::Event(raw) => text.push_str(std::str::from_utf8(&raw).unwrap()),
            Item::Broken(broken) => failure = Some(broken),
        }
    }
    (text, failure)
}

async fn check(data: &[&str], wants_usage: bool, want: &[&str], broken: Option<FailureKind>) -> Stream {
    let bytes: String = data.iter().map(|data| event(data)).collect();
    let mut stream = open(&bytes, wants_usage).await.unwrap();
    let (text, failure) = drain(&mut stream).await;
    assert_eq!(text, want.iter().map(|data| event(data)).collect::<String>(), "{data:?}");
    assert_eq!(failure.map(|failure| failure.kind), broken, "{data:?}");
    assert_eq!(stream.next().await, None);
    stream
}

#[tokio::test]
async fn a_whole_stream_passes_as_it_came() {
    let raw = format!(
        ": hello\n\nid: 1\nevent: message\ndata: {ROLE}\r\n\r\n: ping\n\n{}: ping\n\n{}data:[DONE]\n\n",
        event(ONE),
        event(STOP)
    );
    let mut stream = open(&raw, false).await.unwrap();
    // Comments before the first content are of no use to anyone; all else is the same bytes.
    let want = raw.replacen(": hello\n\n", "", 1).replacen(": ping\n\n", "", 1);
    assert_eq!(drain(&mut stream).await, (want, None));
    assert_eq!((stream.usage(), stream.text_bytes()), (None, 4));
}

#[tokio::test]
async fn what_fails_before_any_content_is_an_error_and_not_a_stream() {
    let filtered = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}"#;
    let limit = r#"{"error":{"message":"slow down","code":429}}"#;
    let table: [(&[&str], FailureKind); 9] = [
        (&[], FailureKind::Broken),
        (&[ROLE], FailureKind::Broken),
        (&[ERROR], FailureKind::Server),
        (&[ROLE, ERROR, ONE], FailureKind::Server),
        (&[ROLE, limit], FailureKind::RateLimit),
        (&["[DONE]"], FailureKind::Malformed),
        (&[ROLE, USAGE, "[DONE]"], FailureKind::Malformed),
        (&[ROLE, filtered, "[DONE]"], FailureKind::ContentPolicy),
        (&["garbled"], FailureKind::Broken),
    ];
    for (data, kind) in table {
        let bytes: String = data.iter().map(|data| event(data)).collect();
        let failure = open(&bytes, false).await.err().unwrap();
        assert_eq!(failure.kind, kind, "{data:?}");
        assert!(!failure.message.contains("sk-1"));
    }
    assert_eq!(open(": one moment\n\n", false).await.err().unwrap().kind, FailureKind::Broken);
}

#[tokio::test]
async fn an_end_without_content_is_a_valid_empty_answer() {
    check(&[ROLE, STOP, "[DONE]"], false, &[ROLE, STOP, "[DONE]"], None).await;
}

#[tokio::test]
async fn a_stream_without_its_closing_line_is_whole_and_gets_one() {
    check(&[ONE, STOP], false, &[ONE, STOP, "[DONE]"], None).await;
    let unclosed = format!("{}{}data: [DONE]", event(ONE), event(STOP));
    let (text, failure) = drain(&mut open(&unclosed, false).await.unwrap()).await;
    assert_eq!((text, failure), (format!("{unclosed}\n\n"), None));
}

#[tokio::test]
async fn a_closing_line_without_a_finish_reason_is_an_end() {
    check(&[ONE, "[DONE]"], false, &[ONE, "[DONE]"], None).await;
}

#[tokio::test]
async fn a_stream_cut_in_the_middle_ends_with_one_failure_and_no_closing_line() {
    check(&[ONE, TWO], false, &[ONE, TWO], Some(FailureKind::Broken)).await;
    let half = format!("{}data: {}", event(ONE), &TWO[..20]);
    let (text, failure) = drain(&mut open(&half, false).await.unwrap()).await;
    assert_eq!((text, failure.unwrap().kind), (event(ONE), FailureKind::Broken));
    let second = r#"{"choices":[{"index":1,"delta":{"content":"x"}}]}"#;
    check(&[ONE, second, STOP], false, &[ONE, second, STOP], Some(FailureKind::Broken)).await;
}

#[tokio::test]
async fn an_error_after_content_ends_the_stream() {
    let stream = check(&[ONE, ERROR, TWO, STOP, "[DONE]"], false, &[ONE], Some(FailureKind::Server)).await;
    assert_eq!(stream.text_bytes(), 4);
}

#[tokio::test]
async fn a_garbled_event_is_skipped() {
    check(&[ONE, r#"{"choices":[{"#, TWO, STOP, "[DONE]"], false, &[ONE, TWO, STOP, "[DONE]"], None).await;
}

#[tokio::test]
async fn usage_in_any_shape_is_counted_once_and_shown_only_to_who_asked() {
    let usage = r#""usage":{"prompt_tokens":7,"completion_tokens":5}"#;
    let started = r#""usage":{"prompt_tokens":7,"completion_tokens":1}"#;
    let with = |data: &str, usage: &str| format!("{},{usage}}}", data.strip_suffix('}').unwrap());
    let (beside, running) = (with(STOP, usage), with(ONE, started));
    let (bare, idle) = (format!("{{{usage}}}"), format!(r#"{{"choices":[{{"delta":{{}}}}],{usage}}}"#));
    let made = format!(r#"{{"id":"x","model":"m","choices":[],{usage}}}"#);
    let made_bare = format!(r#"{{"choices":[],{usage}}}"#);
    // what comes, what who did not ask sees, what is added for who asked
    let table: [(&[&str], &[&str], &str); 6] = [
        (&[ONE, STOP, USAGE], &[ONE, STOP], USAGE),
        (&[ONE, &beside], &[ONE, &beside], &made),
        (&[&running, &beside], &[&running, &beside], &made),
        (&[ONE, STOP, &bare], &[ONE, STOP], &made_bare),
        (&[ONE, STOP, &idle], &[ONE, STOP], &made_bare),
        (&[USAGE, ONE, STOP, USAGE], &[ONE, STOP], USAGE),
    ];
    for (data, seen, added) in table {
        for ending in [&["[DONE]"][..], &[]] {
            let data = [data, ending].concat();
            let stream = check(&data, false, &[seen, &["[DONE]"]].concat(), None).await;
            assert_eq!(stream.usage(), Some(Usage { input: 7, output: 5 }), "{data:?}");
            check(&data, true, &[seen, &[added, "[DONE]"]].concat(), None).await;
        }
    }
    let zero = with(STOP, r#""usage":{"prompt_tokens":0,"completion_tokens":0}"#);
    let stream = check(&[ONE, &zero, "[DONE]"], false, &[ONE, &zero, "[DONE]"], None).await;
    assert_eq!(stream.usage(), Some(Usage { input: 0, output: 0 }));
}

#[tokio::test]
async fn a_preamble_of_empty_choices_is_kept_for_the_client() {
    let preamble = r#"{"choices":[],"prompt_filter_results":[]}"#;
    check(&[preamble, ONE, STOP, "[DONE]"], false, &[preamble, ONE, STOP, "[DONE]"], None).await;
}

#[tokio::test]
async fn any_split_of_a_stream_gives_the_same_items() {
    let bytes = Bytes::from(format!(
        "{}: ping\r\n\r\ndata: {}\r\n\r\n{}{}data: [DONE]\n\n",
        event(ROLE),
        ONE.replace("one", "häß 世界 👩‍🚀"),
        event(STOP),
        event(USAGE)
    ));
    let mut wholes = Vec::new();
    for cut in 0..bytes.len() {
        let source = Source::Memory(VecDeque::from([bytes.slice(..cut), bytes.slice(cut..)]));
        let mut stream =
            Stream::open(source, Limit::new(LONG, "stream_timeout"), LONG, true, None).await.unwrap();
        wholes.push((drain(&mut stream).await, stream.usage(), stream.text_bytes()));
    }
    let first = &wholes[0];
    assert!(first.0.0.contains("👩‍🚀") && first.0.0.ends_with("[DONE]\n\n"));
    assert!(wholes.iter().all(|whole| whole == first));
}

#[tokio::test]
async fn only_events_with_data_end_the_silence() {
    let ping = ": ping\n\n";
    let mut stream = open(&[&event(ONE), ping, &event(TWO)].concat(), false).await.unwrap();
    assert_eq!(stream.next().await, Some(Item::Event(event(ONE).into())));
    let after_one = stream.deadline;
    assert_eq!(stream.next().await, Some(Item::Event(ping.into())));
    assert_eq!(stream.deadline, after_one);
    assert_eq!(stream.next().await, Some(Item::Event(event(TWO).into())));
    assert!(stream.deadline > after_one);
}

#[tokio::test]
async fn an_answer_is_complete_with_its_last_event_and_not_before() {
    let raw: String = [ONE, STOP, "[DONE]"].iter().map(|data| event(data)).collect();
    let mut stream = open(&raw, false).await.unwrap();
    let mut complete = Vec::new();
    while stream.next().await.is_some() {
        complete.push(stream.is_complete());
    }
    assert_eq!(complete, [false, false, true]);
}
