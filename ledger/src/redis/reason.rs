//! Why Redis is of no use, in words for whoever runs it. Never repeats what a server said word for word: old ones
//! quote the command that they refuse, and that may have been a password.
use redis::{ErrorKind, RedisError};

/// What happened, and what to look at.
pub(super) fn reason(error: &RedisError) -> String {
    if error.is_connection_refusal() {
        return "connection refused: nothing listens there; does Redis run, and is this its port?".to_owned();
    }
    if error.is_timeout() {
        return "no answer in time: is it frozen or overloaded, or is the network cut?".to_owned();
    }
    if let Some(text) = error.code().and_then(by_code) {
        return text.to_owned();
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => "it refuses the user or the password".to_owned(),
        // The words of the operating system or the resolver.
        ErrorKind::Io => format!("{error}; is the host's name right, and is the network up?"),
        ErrorKind::Client | ErrorKind::InvalidClientConfig => {
            "no connection could be set up: do address, user and database fit this server?".to_owned()
        }
        ErrorKind::MasterNameNotFoundBySentinel => {
            "no sentinel knows a master of this name: is `service_name` right?".to_owned()
        }
        _ if names_database(error) => "it has no database of that number".to_owned(),
        _ => format!("{} ({})", error.category(), error.code().unwrap_or("no code")),
    }
}

fn names_database(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("DB index"))
}

fn by_code(code: &str) -> Option<&'static str> {
    Some(match code {
        "NOAUTH" => "NOAUTH: it wants a password; set redis_password, and redis_username for an ACL user",
        "WRONGPASS" => "WRONGPASS: it refuses the user or the password",
        "NOPERM" => {
            "NOPERM: the user may not run a command or touch a key that the ledger needs; \
             `onegate check --online` names them"
        }
        "READONLY" => "READONLY: it is a replica that takes no writes; name the primary",
        "LOADING" => "LOADING: it is reading its data set, and will be there when that is done",
        "MASTERDOWN" => "MASTERDOWN: it is a replica that has lost its primary",
        "CLUSTERDOWN" => "CLUSTERDOWN: the cluster does not cover all slots",
        "MISCONF" => {
            "MISCONF: it takes no writes, for it could not save to its disk; is the disk full or not writable?"
        }
        "OOM" => {
            "OOM: it takes no writes, for it has reached maxmemory; raise it, or give the ledger its own Redis"
        }
        "BUSY" => "BUSY: a script of somebody runs for too long",
        "MOVED" | "CROSSSLOT" => "it is a node of a Redis Cluster, and a single Redis was expected",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_a_server_said_is_not_repeated() {
        let said = "unknown command 'AUTH', with args beginning with: 'hunter2'".to_owned();
        for kind in [ErrorKind::Extension, ErrorKind::AuthenticationFailed, ErrorKind::Client] {
            let text = reason(&RedisError::from((kind, "said", said.clone())));
            assert!(!text.contains("hunter2") && !text.is_empty(), "{text}");
        }
    }

    #[test]
    fn a_refused_connection_and_a_missed_deadline_say_so() {
        let refused = RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert!(reason(&refused).starts_with("connection refused"));
        let missed = RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        assert!(reason(&missed).starts_with("no answer in time"));
    }
}
