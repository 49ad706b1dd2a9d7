//! What Redis did, in its own order: a `MONITOR` that is never killed, parsed into executions.
use crate::world::until_so;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

/// A command that a client sent, and what a script of it did inside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Execution {
    /// Microseconds since the Unix epoch, by Redis.
    pub(crate) at_us: u64,
    /// The same for the last of what was done inside. A script reads the clock after it was told of, and before this.
    pub(crate) ended_us: u64,
    pub(crate) words: Vec<String>,
    pub(crate) inner: Vec<Vec<String>>,
}

/// Something that Redis went through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    Executed(Execution),
    /// It was started with an empty memory; what follows is of its new life.
    Restarted,
}

/// Collects until dropped or until Redis ends.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    acts: Arc<Mutex<Vec<Act>>>,
}

impl Monitor {
    /// Sees all that comes after the return. Called again after a restart.
    pub(crate) fn attach(&self, address: &str) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"AUTH prover prover\r\nCLIENT SETNAME prover\r\nMONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        for _ in 0..3 {
            let answer = lines.next().unwrap();
            assert!(answer.starts_with("+OK"), "{answer}");
        }
        if !self.acts.lock().unwrap().is_empty() {
            self.acts.lock().unwrap().push(Act::Restarted);
        }
        let acts = Arc::clone(&self.acts);
        std::thread::spawn(move || lines.for_each(|line| take(&mut acts.lock().unwrap(), &line)));
    }

    /// All that Redis did up to this call.
    pub(crate) fn up_to_now(&self, redis: &mut redis::Connection) -> Vec<Act> {
        let acts = self.acts.lock().unwrap().len();
        let mark = format!("mark {acts}");
        redis::cmd("ECHO").arg(&mark).exec(redis).unwrap();
        let is_mark = |act: &Act| matches!(act, Act::Executed(it) if it.words.get(1) == Some(&mark));
        until_so("the monitor has caught up", || self.acts.lock().unwrap()[acts..].iter().any(is_mark));
        self.acts.lock().unwrap().clone()
    }

    /// How often each replica's heart has beaten.
    pub(crate) fn beats(&self) -> HashMap<String, usize> {
        let mut beats = HashMap::new();
        for act in self.acts.lock().unwrap().iter() {
            let Act::Executed(execution) = act else { continue };
            let names = execution.inner.iter().filter(|words| words[0].eq_ignore_ascii_case("ZADD"));
            for name in names.filter_map(|words| words.get(3)) {
                *beats.entry(name.clone()).or_default() += 1;
            }
        }
        beats
    }
}

/// `+1700000000.123456 [0 127.0.0.1:5000] "GET" "key"`, where a script's own commands come from `lua`.
fn take(acts: &mut Vec<Act>, line: &str) {
    let Some((head, rest)) = line.strip_prefix('+').and_then(|line| line.split_once("] ")) else { return };
    let Some((time, source)) = head.split_once(" [") else { return };
    let Some((seconds, micros)) = time.split_once('.') else { return };
    let at_us = seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
    let words = words(rest);
    if !source.ends_with(" lua") {
        acts.push(Act::Executed(Execution { at_us, ended_us: at_us, words, inner: Vec::new() }));
    } else if let Some(Act::Executed(execution)) = acts.last_mut() {
        execution.ended_us = at_us;
        execution.inner.push(words);
    }
}

/// Quoted words with backslashes before quotes, backslashes and what cannot be printed.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, &mut word) {
            ('"', None) => word = Some(String::new()),
            ('"', Some(_)) => words.extend(word.take()),
            ('\\', Some(open)) => match letters.next() {
                Some('n') => open.push('\n'),
                Some('r') => open.push('\r'),
                Some('t') => open.push('\t'),
                Some(escaped) => open.push(escaped),
                None => {}
            },
            (_, Some(open)) => open.push(letter),
            (_, None) => {}
        }
    }
    words
}

#[test]
fn a_line_of_the_monitor_is_read_with_what_its_script_did() {
    let mut acts = Vec::new();
    take(&mut acts, r#"+1700000000.000123 [0 127.0.0.1:5000] "EVALSHA" "ab" "1" "k\"e\ny""#);
    take(&mut acts, r#"+1700000000.000124 [0 lua] "INCRBY" "k" "1""#);
    let execution = Execution {
        at_us: 1_700_000_000_000_123,
        ended_us: 1_700_000_000_000_124,
        words: ["EVALSHA", "ab", "1", "k\"e\ny"].map(str::to_owned).to_vec(),
        inner: vec![["INCRBY", "k", "1"].map(str::to_owned).to_vec()],
    };
    assert_eq!(acts, [Act::Executed(execution)]);
}
