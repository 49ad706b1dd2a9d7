//! Server-sent events out of bytes that come in any split. An event is handed on complete and as it came; the same
//! bytes give the same events however they were cut.
use bytes::{Buf, Bytes, BytesMut};
use std::borrow::Cow;

/// The most bytes that an unfinished event may hold: above an image in one event, below what hurts.
pub const UNFINISHED_BYTES_MAX: usize = 4 << 20;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// An unfinished event grew beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversized;

/// Cuts bytes into events.
#[derive(Debug)]
pub struct Scanner {
    /// What has come and was not looked at yet.
    fresh: Bytes,
    /// The beginning of an event whose end has not come.
    partial: BytesMut,
    lines: Lines,
    at_start: bool,
    unfinished_bytes_max: usize,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::with_limit(UNFINISHED_BYTES_MAX)
    }
}

impl Scanner {
    /// With another limit for an unfinished event.
    #[must_use]
    pub fn with_limit(unfinished_bytes_max: usize) -> Self {
        Self {
            fresh: Bytes::new(),
            partial: BytesMut::new(),
            lines: Lines::default(),
            at_start: true,
            unfinished_bytes_max,
        }
    }

    /// Takes more bytes. Take out all events before feeding again, or bytes are copied needlessly.
    pub fn feed(&mut self, bytes: Bytes) {
        if self.fresh.is_empty() {
            self.fresh = bytes;
        } else {
            self.fresh = [&self.fresh[..], &bytes[..]].concat().into();
        }
    }

    /// The next complete event; `None` until more bytes are fed.
    ///
    /// # Errors
    /// The unfinished event is larger than the limit.
    pub fn next_event(&mut self) -> Result<Option<Event>, Oversized> {
        if self.partial.is_empty() {
            // Line ends before an event mean nothing; one may be the second half of the last event's CRLF.
            let blank = self.fresh.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.fresh.advance(blank);
        }
        if self.fresh.is_empty() {
            return Ok(None);
        }
        let Some(end) = self.lines.end_of_event(&self.fresh) else {
            if self.partial.len() + self.fresh.len() > self.unfinished_bytes_max {
                return Err(Oversized);
            }
            self.partial.extend_from_slice(&self.fresh);
            self.fresh.clear();
            return Ok(None);
        };
        self.lines = Lines::default();
        let tail = self.fresh.split_to(end);
        let raw = if self.partial.is_empty() {
            tail
        } else {
            self.partial.extend_from_slice(&tail);
            self.partial.split().freeze()
        };
        Ok(Some(self.event(raw)))
    }

    /// What was left without its closing blank line when the bytes ended, closed by us.
    pub fn finish(&mut self) -> Option<Event> {
        let mut raw = self.partial.split();
        raw.extend_from_slice(&self.fresh.split_off(0));
        if raw.is_empty() {
            return None;
        }
        let missing: &[u8] = if raw.ends_with(b"\n") || raw.ends_with(b"\r") { b"\n" } else { b"\n\n" };
        raw.extend_from_slice(missing);
        Some(self.event(raw.freeze()))
    }

    fn event(&mut self, mut raw: Bytes) -> Event {
        if std::mem::take(&mut self.at_start) && raw.starts_with(BOM) {
            raw.advance(BOM.len());
        }
        Event { raw }
    }
}

/// The line end before the current line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Lf,
    Cr,
    CrLf,
}

/// Where in the lines of an unfinished event the scan stands.
#[derive(Debug, Default)]
struct Lines {
    /// The current line holds something.
    written: bool,
    previous: Option<LineEnd>,
    /// The last byte was a CR whose LF may follow; true inside: it ended a blank line.
    after_cr: Option<bool>,
}

impl Lines {
    /// How many of the next bytes belong to the event, if it ends in them.
    ///
    /// A blank line that a CR ends is taken for complete without its LF unless the line before ended in CRLF:
    /// so the end of an event depends on its bytes alone, and a stream of bare CRs is never late by an event.
    fn end_of_event(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if let Some(blank) = self.after_cr.take() {
                let is_lf = byte == b'\n';
                at += usize::from(is_lf);
                if blank {
                    return Some(at);
                }
                self.previous = Some(if is_lf { LineEnd::CrLf } else { LineEnd::Cr });
                continue;
            }
            let Some(found) = memchr::memchr2(b'\r', b'\n', &bytes[at..]) else {
                self.written = true;
                return None;
            };
            self.written |= found > 0;
            at += found + 1;
            let blank = !std::mem::take(&mut self.written);
            if bytes[at - 1] == b'\n' {
                if blank {
                    return Some(at);
                }
                self.previous = Some(LineEnd::Lf);
            } else if blank && self.previous != Some(LineEnd::CrLf) {
                return Some(at);
            } else {
                self.after_cr = Some(blank);
            }
        }
        None
    }
}

/// One event with its closing blank line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The bytes as they came.
    pub raw: Bytes,
}

impl Event {
    /// The event's data: its `data` lines joined by LF. `None` if it has none (comments, keep-alives).
    #[must_use]
    pub fn data(&self) -> Option<Cow<'_, [u8]>> {
        let mut data: Option<Cow<'_, [u8]>> = None;
        for value in self.values(b"data") {
            match &mut data {
                None => data = Some(Cow::Borrowed(value)),
                Some(joined) => {
                    let joined = joined.to_mut();
                    joined.push(b'\n');
                    joined.extend_from_slice(value);
                }
            }
        }
        data
    }

    /// The event's name: its last `event` line.
    #[must_use]
    pub fn name(&self) -> Option<&[u8]> {
        self.values(b"event").last()
    }

    /// The values of all lines of this field.
    fn values<'a>(&'a self, field: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.raw.split(|byte| matches!(byte, b'\r' | b'\n'));
        lines.filter_map(move |line| match line.strip_prefix(field)? {
            [] => Some(&[][..]),
            [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
