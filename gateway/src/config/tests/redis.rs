//! The ways to say where Redis is.
use super::super::{Environment, load_text};
use super::golden::good;
use super::read;
use ledger::{RedisAddress, RedisLogin, RedisPlace, RedisSettings};

/// The Redis of a config that has these settings and this environment.
fn redis(settings: &str, environment: &[(&str, &str)]) -> Option<RedisSettings> {
    let text = format!(
        "model_list: [{{model_name: a, litellm_params: {{model: m, mock_response: x}}}}]\n{settings}"
    );
    let environment = Environment::of(environment.iter().copied());
    load_text("config.yaml", &text, &environment).unwrap_or_else(|problems| panic!("{problems}")).redis
}

pub(super) fn single(redis: &RedisSettings) -> (String, &RedisLogin) {
    match &redis.place {
        RedisPlace::Single { address: RedisAddress::Tcp(at), login } => (at.to_string(), login),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_redis_is_named_by_a_url_a_host_or_the_cache() {
    let named = |settings: &str| {
        let redis = redis(settings, &[])?;
        let (at, login) = single(&redis);
        Some((at, login.username.clone(), login.password.clone(), login.database, login.tls.is_some()))
    };
    let me = Some("me".to_owned());
    let password = Some("pa ss".to_owned());
    assert_eq!(
        named("router_settings: {redis_url: 'redis://me:pa%20ss@host:1/3'}"),
        Some(("host:1".to_owned(), me.clone(), password.clone(), 3, false))
    );
    assert_eq!(
        named(
            "router_settings: {redis_url: 'rediss://host', redis_username: me, redis_password: pa ss, redis_db: 3}"
        ),
        Some(("host:6379".to_owned(), me.clone(), password.clone(), 3, true))
    );
    assert_eq!(
        named("router_settings: {redis_host: '::1', redis_ssl: true}"),
        Some(("::1:6379".to_owned(), None, None, 0, true))
    );
    let cache = "litellm_settings: {cache: true, cache_params: {type: redis, host: cache, username: me, password: pa ss}}";
    assert_eq!(named(cache), Some(("cache:6379".to_owned(), me, password, 0, false)));
    assert_eq!(named("litellm_settings: {cache: true, cache_params: {type: local, host: cache}}"), None);
    assert_eq!(named("litellm_settings: {cache_params: {type: redis, host: cache}}"), None);
}

#[test]
fn a_socket_is_named_by_a_url() {
    let redis =
        redis("router_settings: {redis_url: 'unix:///run/redis.sock', redis_password: pw}", &[]).unwrap();
    let RedisPlace::Single { address: RedisAddress::Unix(path), login } = redis.place else { panic!() };
    assert_eq!((path.to_str(), login.password.as_deref()), (Some("/run/redis.sock"), Some("pw")));
}

#[test]
fn the_environment_names_a_redis_and_fills_in_what_a_file_leaves_out() {
    let from = |settings: &str, environment: &[(&str, &str)]| {
        let redis = redis(settings, environment).unwrap();
        let (at, login) = single(&redis);
        (at, login.password.clone(), login.database, login.tls.is_some())
    };
    let all = [
        ("REDIS_HOST", "h"),
        ("REDIS_PORT", "7"),
        ("REDIS_PASSWORD", "pw"),
        ("REDIS_DB", "2"),
        ("REDIS_SSL", "True"),
    ];
    let password = Some("pw".to_owned());
    assert_eq!(from("", &all), ("h:7".to_owned(), password.clone(), 2, true));
    assert_eq!(from("litellm_settings: {cache: true}", &all), ("h:7".to_owned(), password.clone(), 2, true));
    let file = "router_settings: {redis_host: f, redis_db: 1, redis_ssl: false}";
    assert_eq!(from(file, &all), ("f:7".to_owned(), password, 1, false));
    // A URL stands for itself, whoever gives it; and it wins in the environment.
    assert_eq!(
        from("router_settings: {redis_url: 'redis://u'}", &all),
        ("u:6379".to_owned(), None, 0, false)
    );
    let url = [("REDIS_URL", "redis://u:1"), ("REDIS_HOST", "h")];
    assert_eq!(from("", &url).0, "u:1");
    // What Kubernetes sets for a service of this name is no port.
    let kubernetes = [("REDIS_HOST", "h"), ("REDIS_PORT", "tcp://10.0.0.1:6379")];
    assert_eq!(from("", &kubernetes).0, "h:6379");
    assert!(redis("", &[("REDIS_PASSWORD", "pw")]).is_none());
}

#[test]
fn sentinels_are_named_as_litellm_names_them() {
    let file = "litellm_settings: {cache: true, cache_params: {type: redis, service_name: mymaster, \
                sentinel_nodes: [[a, 1], [b], 'c:3', {host: d, port: '4'}], sentinel_password: secret-s, db: 2}}";
    let nodes = r#"[["a", 1], ["b", "26379"], ["c", 3], ["d", 4]]"#;
    let variables = [
        ("REDIS_SENTINEL_NODES", nodes),
        ("REDIS_SERVICE_NAME", "mymaster"),
        ("REDIS_SENTINEL_PASSWORD", "secret-s"),
        ("REDIS_DB", "2"),
    ];
    for redis in [redis(file, &[]), redis("", &variables)] {
        let RedisPlace::Sentinel { sentinels, sentinel_login, master, login } = redis.unwrap().place else {
            panic!()
        };
        let at: Vec<String> = sentinels.iter().map(ToString::to_string).collect();
        assert_eq!((at.join(" "), master.as_str()), ("a:1 b:26379 c:3 d:4".to_owned(), "mymaster"));
        assert_eq!((sentinel_login.password.as_deref(), sentinel_login.database), (Some("secret-s"), 0));
        // LiteLLM gives the master the sentinels' password too, unless it has its own.
        assert_eq!((login.password.as_deref(), login.database), (Some("secret-s"), 2));
    }
    let own = "router_settings: {cache_kwargs: {service_name: m, sentinel_nodes: [[a, 1]], sentinel_password: s, password: p, ssl: true}}\n\
               onegate_settings: {ledger: {sentinel_ssl: false, sentinel_username: su}}";
    let RedisPlace::Sentinel { sentinel_login, login, .. } = redis(own, &[]).unwrap().place else { panic!() };
    assert_eq!((login.password.as_deref(), login.tls.is_some()), (Some("p"), true));
    assert_eq!((sentinel_login.username.as_deref(), sentinel_login.tls), (Some("su"), None));
}

#[test]
fn a_cluster_is_named_as_litellm_names_it() {
    let variables =
        [("REDIS_CLUSTER_NODES", r#"[{"host": "a", "port": "7001"}, {"host": "b", "port": 7002}]"#)];
    let nodes = "[{host: a, port: '7001'}, {host: b, port: 7002}]";
    let cache = format!(
        "litellm_settings: {{cache: true, cache_params: {{type: redis, redis_startup_nodes: {nodes}, password: pw}}}}"
    );
    let router = format!("router_settings: {{redis_password: pw, cache_kwargs: {{startup_nodes: {nodes}}}}}");
    let password = "router_settings: {redis_password: pw}";
    for redis in [redis(&cache, &[]), redis(&router, &[]), redis(password, &variables)] {
        let RedisPlace::Cluster { nodes, login } = redis.unwrap().place else { panic!() };
        let at: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        assert_eq!((at.join(" "), login.password.as_deref()), ("a:7001 b:7002".to_owned(), Some("pw")));
    }
}

#[test]
fn a_redis_password_may_hold_any_characters() {
    let redis = good("full.yaml").unwrap().redis.unwrap();
    let (at, login) = single(&redis);
    assert_eq!((at.as_str(), login.database), ("redis.invalid:6380", 2));
    assert_eq!(login.password.as_deref(), Some("p@ss:w/o#r%d?&+ é"));
    assert_eq!(redis.namespace, "blue");
}

#[test]
fn an_address_that_redis_can_never_be_reached_at_is_a_fault_of_the_file() {
    let with = |settings: &str| {
        read(&format!(
            "model_list: [{{model_name: m, litellm_params: {{model: m, mock_response: x}}}}]\nrouter_settings: {{{settings}}}\n"
        ))
    };
    for bad in [
        "redis_url: 'redis://h:99999'",
        "redis_url: 'redis://:sk-secret@127.0.0.1:1/zz'",
        "redis_url: 'redis://:p%ffw@127.0.0.1:1/0'",
        "redis_url: 'redis://127.0.0.1:1', redis_ssl: true",
        "redis_url: 'redis://:sk-secret@127.0.0.1:1', redis_password: sk-secret-2",
    ] {
        let problems = with(bad).map(|_| ()).unwrap_err().to_string();
        assert!(problems.contains("router_settings.redis_"), "{bad}: {problems}");
        assert!(!problems.contains("sk-secret"), "{problems}");
    }
    assert!(with("redis_url: 'redis://user:pass@127.0.0.1:6379/2'").is_ok());
}
