//! The slots of a cluster: which key lies in which, and which master has which.
use super::address::RedisEndpoint;
use redis::Value;
use std::collections::BTreeSet;

/// Slots are numbered below this.
const SLOTS: u16 = 16_384;
/// Tags tried to find one in a given set of slots: enough to find one even for a single slot.
const TAGS_TRIED_MAX: u32 = 1_000_000;

/// The slot of a key: of what stands in its first braces, or of all of it.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    crc16(tag_of(key)) % SLOTS
}

fn tag_of(key: &[u8]) -> &[u8] {
    let inside = key.iter().position(|&byte| byte == b'{').map(|at| &key[at + 1..]);
    let tag =
        inside.and_then(|inside| inside.iter().position(|&byte| byte == b'}').map(|end| &inside[..end]));
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// CRC-16/XMODEM, as the cluster's specification has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// Who has which slots, as a node tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Topology {
    /// First slot, last slot, their master; in the order of the slots.
    pub(super) ranges: Vec<(u16, u16, RedisEndpoint)>,
    /// Every node, replicas too.
    pub(super) nodes: BTreeSet<RedisEndpoint>,
}

impl Topology {
    /// Reads the answer to `CLUSTER SLOTS` of the node at `asked`; `None` if it is not one.
    pub(super) fn read(answer: &Value, asked: &RedisEndpoint) -> Option<Self> {
        let Value::Array(entries) = answer else { return None };
        let mut topology = Self::default();
        for entry in entries {
            let Value::Array(parts) = entry else { return None };
            let [Value::Int(first), Value::Int(last), nodes @ ..] = parts.as_slice() else { return None };
            let mut nodes = nodes.iter().map(|node| endpoint(node, asked));
            // A master whose name nobody knows yet cannot be called; its replicas may be.
            if let Some(master) = nodes.next()? {
                let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
                topology.ranges.push((first, last, master.clone()));
                topology.nodes.insert(master);
            }
            topology.nodes.extend(nodes.flatten());
        }
        topology.ranges.sort_unstable();
        Some(topology)
    }

    /// The master of a slot.
    pub(super) fn master(&self, slot: u16) -> Option<&RedisEndpoint> {
        let after = self.ranges.partition_point(|(first, ..)| *first <= slot);
        let (_, last, master) = self.ranges.get(after.checked_sub(1)?)?;
        (slot <= *last).then_some(master)
    }

    /// Text that begins so and, between braces, lies in a slot of this master: the same for everyone who sees these
    /// slots.
    pub(super) fn tag_in(&self, master: &RedisEndpoint, lead: &str) -> Option<String> {
        let mut tags = (0..TAGS_TRIED_MAX).map(|number| format!("{lead}:{number}"));
        tags.find(|tag| self.master(slot_of(tag.as_bytes())) == Some(master))
    }
}

/// Host and port of a node. Without a host it is the one that was asked.
fn endpoint(node: &Value, asked: &RedisEndpoint) -> Option<RedisEndpoint> {
    let Value::Array(parts) = node else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        Value::Nil => "",
        _ => return None,
    };
    let host = match host {
        "?" => return None,
        "" => &asked.host,
        host => host,
    };
    Some(RedisEndpoint { host: host.to_owned(), port: u16::try_from(*port).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> RedisEndpoint {
        RedisEndpoint { host: "h".to_owned(), port }
    }

    fn topology(ranges: &[(u16, u16, u16)]) -> Topology {
        let ranges = ranges.iter().map(|&(first, last, port)| (first, last, at(port))).collect();
        Topology { ranges, nodes: BTreeSet::new() }
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!((slot_of(b"foo"), slot_of(b"bar")), (12_182, 5_061));
    }

    #[test]
    fn only_what_stands_in_the_first_braces_counts() {
        let slot = slot_of(b"dep-a");
        for key in ["{dep-a}:openai/gpt-4o:rpm:21-50", "deployment:{dep-a}:cooldown", "prod:{dep-a}:{x}"] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_ne!(slot_of(b"{}dep-a"), slot);
    }

    #[test]
    fn a_slot_without_a_master_has_none() {
        let topology = topology(&[(0, 99, 1), (200, 16_383, 2)]);
        let masters =
            [0, 99, 100, 199, 200, 16_383].map(|slot| topology.master(slot).map(|master| master.port));
        assert_eq!(masters, [Some(1), Some(1), None, None, Some(2), Some(2)]);
    }

    #[test]
    fn every_master_has_a_tag_of_its_own() {
        let topology = topology(&[(0, 5_460, 1), (5_461, 5_461, 3), (5_462, 16_383, 2)]);
        for port in 1..=3 {
            let tag = topology.tag_in(&at(port), "onegate").unwrap();
            let key = format!("{{{tag}}}:replicas");
            assert_eq!(topology.master(slot_of(key.as_bytes())), Some(&at(port)));
        }
        assert_eq!(topology.tag_in(&at(9), "onegate"), None);
    }

    #[test]
    fn an_answer_is_read_with_names_missing() {
        let node =
            |host: Value, port: i64| Value::Array(vec![host, Value::Int(port), Value::BulkString(vec![])]);
        let host = |name: &str| Value::BulkString(name.as_bytes().to_vec());
        let answer = Value::Array(vec![
            Value::Array(vec![Value::Int(100), Value::Int(200), node(host("a"), 1), node(host("?"), 2)]),
            Value::Array(vec![Value::Int(0), Value::Int(99), node(Value::Nil, 3), node(host("b"), 4)]),
        ]);
        let read = Topology::read(&answer, &at(9)).unwrap();
        assert_eq!(read.ranges[0], (0, 99, at(3)));
        assert_eq!(read.ranges[1].2.to_string(), "a:1");
        assert_eq!(read.nodes.len(), 3);
        assert_eq!(Topology::read(&Value::Okay, &at(9)), None);
    }
}
