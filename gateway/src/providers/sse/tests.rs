//! Any split of the same bytes gives the same events.
use super::*;

/// Streams whose every split must give the same events.
const SAMPLES: &[&str] = &[
    "data: {\"a\":1}\n\ndata: [DONE]\n\n",
    "data: häß 世界 \n\ndata: 👩‍🚀 e\u{301} \\ud83d\\ude00\n\n",
    "data: one\r\n\r\ndata: two\r\n\r\ndata: [DONE]\r\n\r\n",
    "data: one\r\rdata: two\r\r",
    "data: a\n\rdata: b\r\n\ndata: c\r\n\r\rdata: d\r\r\n\ndata: e\n\r\n",
    ": keep-alive\n\n: another\r\n\r\ndata: x\n\n",
    "\u{feff}data: x\n\ndata: y\n\n",
    "\n\r\n\ndata: x\n\n\n\n\r\ndata: y\n\n",
    "event: error\nid: 7\nretry: 10\ndata: one\ndata: two\ndata\ndata:\ndata:three\n\n",
    "dataset: no\nunknown\n\ndata:  two blanks\n\n",
    "data: unfinished",
    "data: nearly\n",
];

fn scan(pieces: impl IntoIterator<Item = Bytes>) -> Vec<Event> {
    let mut scanner = Scanner::default();
    let mut events = Vec::new();
    for piece in pieces {
        scanner.feed(piece);
        while let Some(event) = scanner.next_event().unwrap() {
            events.push(event);
        }
    }
    events.extend(scanner.finish());
    events
}

fn data(text: &str) -> Vec<String> {
    let events = scan([Bytes::copy_from_slice(text.as_bytes())]);
    events.iter().filter_map(|event| Some(String::from_utf8(event.data()?.into_owned()).unwrap())).collect()
}

#[test]
fn any_split_of_the_same_bytes_gives_the_same_events() {
    for sample in SAMPLES {
        let bytes = Bytes::copy_from_slice(sample.as_bytes());
        let whole = scan([bytes.clone()]);
        for cut in 0..=bytes.len() {
            assert_eq!(scan([bytes.slice(..cut), bytes.slice(cut..)]), whole, "{sample:?} cut at {cut}");
        }
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let pieces = [bytes.slice(..first), bytes.slice(first..second), bytes.slice(second..)];
                assert_eq!(scan(pieces), whole, "{sample:?} cut at {first} and {second}");
            }
        }
        let singles = (0..bytes.len()).map(|at| bytes.slice(at..=at));
        assert_eq!(scan(singles), whole, "{sample:?} byte by byte");
    }
}

#[test]
fn all_samples_in_one_stream_survive_any_size_of_pieces() {
    let bytes = Bytes::from(SAMPLES[..10].concat());
    let whole = scan([bytes.clone()]);
    assert!(whole.len() >= 20);
    for size in 1..64 {
        let pieces = (0..bytes.len()).step_by(size).map(|at| bytes.slice(at..bytes.len().min(at + size)));
        assert_eq!(scan(pieces), whole, "pieces of {size}");
    }
}

#[test]
fn events_come_as_they_were_written() {
    let events = scan([Bytes::from_static(b"data: one\r\n\r\n: hm\n\nevent: x\ndata: two\n\n")]);
    let raw: Vec<&[u8]> = events.iter().map(|event| &event.raw[..]).collect();
    assert_eq!(raw, [&b"data: one\r\n\r\n"[..], b": hm\n\n", b"event: x\ndata: two\n\n"]);
}

#[test]
fn the_grammar_of_lines_holds() {
    assert_eq!(data(SAMPLES[1]), ["häß 世界 ", "👩‍🚀 e\u{301} \\ud83d\\ude00"]);
    assert_eq!(data(SAMPLES[2]), ["one", "two", "[DONE]"]);
    assert_eq!(data(SAMPLES[3]), ["one", "two"]);
    assert_eq!(data(SAMPLES[4]), ["a", "b", "c", "d", "e"]);
    assert_eq!(data(SAMPLES[5]), ["x"]);
    assert_eq!(data(SAMPLES[6]), ["x", "y"]);
    assert_eq!(data(SAMPLES[7]), ["x", "y"]);
    assert_eq!(data(SAMPLES[8]), ["one\ntwo\n\n\nthree"]);
    assert_eq!(data(SAMPLES[9]), [" two blanks"]);
    assert_eq!(data(SAMPLES[10]), ["unfinished"]);
    let named = scan([Bytes::from_static(b"event: a\nevent: error\ndata: x\n\n")]);
    assert_eq!(named[0].name(), Some(&b"error"[..]));
}

#[test]
fn an_event_is_complete_as_soon_as_its_blank_line_is() {
    for sample in ["data: x\n\n", "data: x\r\n\r\n", "data: x\r\r"] {
        let mut scanner = Scanner::default();
        let (most, last) = sample.split_at(sample.len() - 1);
        scanner.feed(Bytes::copy_from_slice(most.as_bytes()));
        assert_eq!(scanner.next_event(), Ok(None), "{sample:?}");
        scanner.feed(Bytes::copy_from_slice(last.as_bytes()));
        assert!(scanner.next_event().unwrap().is_some(), "{sample:?}");
    }
}

#[test]
fn an_unfinished_event_is_bounded_and_a_finished_one_may_be_large() {
    let mut scanner = Scanner::with_limit(100);
    scanner.feed(Bytes::from(format!("data: {}\n\n", "x".repeat(1000))));
    assert!(scanner.next_event().unwrap().is_some());
    scanner.feed(Bytes::from("x".repeat(60)));
    assert_eq!(scanner.next_event(), Ok(None));
    scanner.feed(Bytes::from("x".repeat(60)));
    assert_eq!(scanner.next_event(), Err(Oversized));
}

#[test]
fn an_event_of_a_megabyte_passes_in_small_pieces() {
    let bytes = Bytes::from(format!("data: {}\n\n", "世".repeat(350_000)));
    let pieces = (0..bytes.len()).step_by(1000).map(|at| bytes.slice(at..bytes.len().min(at + 1000)));
    assert_eq!(scan(pieces)[0].raw, bytes);
}
