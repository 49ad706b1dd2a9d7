//! The fields of a JSON object as spans of its text, so that values stay exactly as they were written.
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// One field: where its quoted name and its value stand.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// The name with its quotes.
    pub(crate) name: Range<usize>,
    /// The value, without the white space round it.
    pub(crate) value: Range<usize>,
    /// The name in plain, where it was written with escapes.
    unescaped: Option<String>,
}

impl Field {
    /// Whether this is the field `name` of the object in `text`.
    pub(crate) fn is(&self, text: &[u8], name: &str) -> bool {
        self.plain_name(text) == name.as_bytes()
    }

    /// Its name without quotes and escapes.
    pub(crate) fn plain_name<'a>(&'a self, text: &'a [u8]) -> &'a [u8] {
        match &self.unescaped {
            Some(name) => name.as_bytes(),
            None => &text[self.name.start + 1..self.name.end - 1],
        }
    }
}

/// The top-level fields of an object, in its order, repeated names included.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(Vec<Field>);

impl Fields {
    /// Reads an object and nothing after it. The error says where the text is not JSON; it never quotes the text.
    pub(crate) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let fields = deserializer.deserialize_map(Spans { text })?;
        deserializer.end()?;
        Ok(fields)
    }

    /// The last field of this name: parsers that accept a repeated name take the last.
    pub(crate) fn find(&self, text: &[u8], name: &str) -> Option<&Field> {
        self.0.iter().rev().find(|field| field.is(text, name))
    }

    /// The value of a field of the object in `text`.
    pub(crate) fn value<'a>(&self, text: &'a str, name: &str) -> Option<&'a str> {
        self.find(text.as_bytes(), name).map(|field| &text[field.value.clone()])
    }

    /// All, in the object's order.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.0.iter()
    }
}

struct Spans<'a> {
    text: &'a str,
}

impl Spans<'_> {
    fn span(&self, part: &str) -> Range<usize> {
        let start = part.as_ptr().addr() - self.text.as_ptr().addr();
        start..start + part.len()
    }
}

impl<'de> Visitor<'de> for Spans<'de> {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields, M::Error> {
        let mut fields = Vec::with_capacity(16);
        while let Some(name) = map.next_key::<&'de RawValue>()? {
            let value = map.next_value::<&'de RawValue>()?;
            let unescaped = match memchr::memchr(b'\\', name.get().as_bytes()) {
                Some(_) => Some(serde_json::from_str(name.get()).map_err(serde::de::Error::custom)?),
                None => None,
            };
            fields.push(Field { name: self.span(name.get()), value: self.span(value.get()), unescaped });
        }
        Ok(Fields(fields))
    }
}

/// The deepest nesting of arrays and objects in `json`, which must be valid JSON.
pub(crate) fn depth(json: &[u8]) -> usize {
    let (mut deepest, mut open, mut at) = (0usize, 0usize, 0);
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' => open = open.saturating_sub(1),
            b'"' => at = end_of_string(json, at),
            _ => {}
        }
    }
    deepest
}

/// The place after the closing quote of the string whose content begins at `at`.
fn end_of_string(json: &[u8], mut at: usize) -> usize {
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_as_they_were_written() {
        let text = r#" { "a" : 1.0 , "b":[ 1,{"a":2}] ,"c":"\"x"} "#;
        let fields = Fields::read(text).unwrap();
        assert_eq!(fields.value(text, "a"), Some("1.0"));
        assert_eq!(fields.value(text, "b"), Some(r#"[ 1,{"a":2}]"#));
        assert_eq!(fields.value(text, "c"), Some(r#""\"x""#));
        assert_eq!(fields.value(text, "d"), None);
    }

    #[test]
    fn a_name_written_with_escapes_is_the_same_name() {
        let text = r#"{"\u006dodel": "x"}"#;
        assert_eq!(Fields::read(text).unwrap().value(text, "model"), Some("\"x\""));
    }

    #[test]
    fn the_last_of_a_repeated_name_counts() {
        let text = r#"{"a":1,"a":2}"#;
        assert_eq!(Fields::read(text).unwrap().value(text, "a"), Some("2"));
    }

    #[test]
    fn text_after_the_object_is_refused() {
        assert!(Fields::read("{} x").is_err());
    }

    #[test]
    fn depth_counts_brackets_outside_of_strings_only() {
        for (json, want) in [("1", 0), ("[]", 1), (r#"{"a":[{}]}"#, 3), (r#"["[[[","\"[","\\",[]]"#, 2)] {
            assert_eq!(depth(json.as_bytes()), want, "{json}");
        }
    }
}
