//! How to get in: user, password, database, certificates.
use super::super::problem::Problems;
use super::super::read::Field;
use super::source::Source;
use ledger::{RedisLogin, RedisTls, RedisTrust};
use std::fs;

/// Files of certificates are small; a larger one is something else.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is said of one Redis: by the one who names the place first, then by others.
pub(super) struct Said<'t>(pub(super) Vec<Source<'t>>);

impl<'t> Said<'t> {
    pub(super) fn get(&self, key: &str) -> Option<Field<'t>> {
        self.0.iter().find_map(|source| source.get(key))
    }

    pub(super) fn text(&self, key: &str, problems: &mut Problems) -> Option<String> {
        let text = self.get(key).and_then(|field| field.text(problems));
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A login that stands in keys alone.
    pub(super) fn login(&self, problems: &mut Problems) -> RedisLogin {
        let username = self.text("username", problems);
        let password = self.text("password", problems);
        let database = self.get("db").and_then(|field| database(&field, problems)).unwrap_or(0);
        let is_encrypted = self.get("ssl").and_then(|field| field.flag(problems)).unwrap_or(false);
        let tls = self.tls(is_encrypted.then(RedisTls::default), problems);
        RedisLogin { username, password, database, tls }
    }

    /// The login of a URL with what keys beside it add. What both say is said twice.
    pub(super) fn added_to(&self, login: RedisLogin, problems: &mut Problems) -> RedisLogin {
        let mut whole = login.clone();
        let mut twice = |key: &str, is_in_url: bool, differs: bool| {
            if let Some(field) = self.get(key).filter(|_| is_in_url && differs) {
                let problem = field.error(format!("`{}` contradicts the URL", field.key));
                problems.push(problem.allowed("the one or the other"));
            }
        };
        let ignored = &mut Problems::default();
        let beside = Self(self.0.clone()).login(ignored);
        let is_encrypted = self.get("ssl").and_then(|field| field.flag(ignored));
        twice("username", login.username.is_some(), beside.username != login.username);
        twice("password", login.password.is_some(), beside.password != login.password);
        twice("db", login.database != 0, beside.database != login.database);
        twice("ssl", true, is_encrypted.is_some_and(|ssl| ssl != login.tls.is_some()));
        whole.username = whole.username.or_else(|| self.text("username", problems));
        whole.password = whole.password.or_else(|| self.text("password", problems));
        if whole.database == 0 {
            whole.database = self.get("db").and_then(|field| database(&field, problems)).unwrap_or(0);
        }
        whole.tls = self.tls(login.tls, problems);
        whole
    }

    /// Certificates and what is asked of them, for a connection that is encrypted.
    fn tls(&self, tls: Option<RedisTls>, problems: &mut Problems) -> Option<RedisTls> {
        let files = ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"].map(|key| self.get(key));
        let Some(mut tls) = tls else {
            // A variable may be meant for another place than the one that the file names.
            if let Some(file) = files.iter().flatten().find(|file| !file.is_from_environment()) {
                let problem =
                    file.error(format!("`{}` is given, but the connection is not encrypted", file.key));
                problems.push(problem.allowed(
                    "`ssl: true` with it (`redis_ssl` in `router_settings`), or a URL with rediss://",
                ));
            }
            return None;
        };
        let [ca, certificate, key] = &files;
        tls.ca = ca.as_ref().and_then(|field| contents(field, problems));
        tls.client = match (certificate, key) {
            (Some(certificate), Some(key)) => contents(certificate, problems).zip(contents(key, problems)),
            (Some(alone), None) | (None, Some(alone)) => {
                let problem =
                    alone.error("a certificate of our own needs its key, and a key its certificate");
                problems.push(problem.allowed("both of `ssl_certfile` and `ssl_keyfile`"));
                None
            }
            (None, None) => None,
        };
        self.trust(&mut tls, problems);
        Some(tls)
    }

    fn trust(&self, tls: &mut RedisTls, problems: &mut Problems) {
        if let Some(field) = self.get("ssl_cert_reqs") {
            match field.text(problems).map(str::to_ascii_lowercase).as_deref() {
                Some("none") => tls.trust = RedisTrust::Anyone,
                Some("optional") => tls.trust = RedisTrust::AnyName,
                Some("required") | None => {}
                Some(_) => {
                    let problem = field.error(format!("`{}` is not understood", field.key));
                    problems.push(problem.allowed("required, optional or none"));
                }
            }
        }
        let names = self.get("ssl_check_hostname");
        if names.and_then(|field| field.flag(problems)) == Some(false) && tls.trust == RedisTrust::Full {
            tls.trust = RedisTrust::AnyName;
        }
        if tls.trust == RedisTrust::Anyone
            && let Some(field) = self.get("ssl_cert_reqs").or_else(|| self.get("url"))
        {
            problems.push(
                field.warning("the certificate of Redis is not looked at: whoever answers is believed"),
            );
        }
    }
}

fn database(field: &Field<'_>, problems: &mut Problems) -> Option<u32> {
    let database = u32::try_from(field.count(problems)?).ok();
    if database.is_none() {
        problems.push(field.error(format!("`{}` must be the number of a database", field.key)));
    }
    database
}

fn contents(field: &Field<'_>, problems: &mut Problems) -> Option<Vec<u8>> {
    let path = field.name(problems)?;
    let read = fs::metadata(path).and_then(|file| {
        if file.len() > FILE_BYTES_MAX {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        fs::read(path)
    });
    match read {
        Ok(contents) => Some(contents),
        Err(error) => {
            let problem =
                field.error(format!("the file of `{}` cannot be read: {}", field.key, error.kind()));
            problems.push(problem.allowed("a file in PEM"));
            None
        }
    }
}
