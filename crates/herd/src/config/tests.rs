//! What a `herd.toml` may say, and how mistakes in it are told.

use super::*;

const SMALL: &str = "listen = [\"127.0.0.1:6500\"]\nhome = \"host=127.0.0.1 port=6501\"\n";

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("/etc/pgherd/herd.toml")).map_err(|e| e.to_string())
}

#[test]
fn a_small_file_gets_the_documented_defaults() {
    let config = parse(SMALL).unwrap();
    assert_eq!(config.listen, ["127.0.0.1:6500".parse().unwrap()]);
    assert_eq!((config.shards, config.auth, config.metrics), (32, Auth::Trust, None));
    assert_eq!((config.log.as_str(), config.log_format), ("info", LogFormat::Text));
    assert_eq!((config.pool.size, config.pool.wait_timeout_ms), (100, 30_000));
    assert_eq!((config.pool.idle_timeout_s, config.pool.max_prepared), (600, 500));
    assert_eq!((config.limits.connections, config.limits.login_timeout_s), (10_000, 15));
    assert_eq!(config.limits.message_bytes_max, 1_073_741_824);
    assert_eq!((config.limits.connections_per_user, config.limits.logins), (0, 8_000));
    assert_eq!(config.pool.tcp.liveness(pool::Liveness::NODE), pool::Liveness::NODE);
    assert_eq!(config.limits.tcp.liveness(pool::Liveness::CLIENT), pool::Liveness::CLIENT);
    assert!(config.tls.is_none() && config.nodes.is_empty());
}

#[test]
fn every_setting_is_read_and_paths_start_at_the_file() {
    let config = parse(
        "listen = [\"0.0.0.0:5432\", \"[::]:5432\"]\nmetrics = \"127.0.0.1:9090\"\nshards = 64\n\
         home = \"host=a user=u password='p w' sslmode=verify-full sslrootcert=ca.pem\"\n\
         nodes = [\"host=b\", \"host=b port=5433\"]\nauth = \"scram\"\nlog = \"debug\"\nlog_format = \"json\"\n\
         [pool]\nsize = 5\ntcp = { keepalives_idle_s = 5, user_timeout_ms = 0 }\n[tls]\ncertificate = \"c.pem\"\nkey = \"/k.pem\"\nrequired = true\n\
         [limits]\nmessage_bytes_max = 1000000\n",
    )
    .unwrap();
    assert_eq!((config.shards, config.auth, config.log_format), (64, Auth::Scram, LogFormat::Json));
    let tcp = config.pool.tcp.liveness(pool::Liveness::NODE);
    assert_eq!((tcp.idle.as_secs(), tcp.interval.as_secs(), tcp.count, tcp.user_timeout.as_secs()), (5, 10, 3, 0));
    assert_eq!(config.nodes.len(), 2);
    assert_eq!(config.home.password.as_deref(), Some("p w"));
    assert_eq!(config.home.sslrootcert.as_deref(), Some(Path::new("/etc/pgherd/ca.pem")));
    let tls = config.tls.unwrap();
    assert_eq!(tls.certificate, Path::new("/etc/pgherd/c.pem"));
    assert_eq!(tls.key, Path::new("/k.pem"));
    assert_eq!((config.pool.size, config.pool.max_prepared), (5, 500));
}

#[test]
fn a_node_may_be_led_by_patroni() {
    let config = parse(
        "listen = [\"127.0.0.1:6500\"]\nhome = { conninfo = \"host=a,b user=u\", patroni = [\"http://a:8008\"] }\n\
         nodes = [\"host=c\", { conninfo = \"host=d\", patroni = [\"http://d:8008\", \"http://e:8008\"] }]\n",
    )
    .unwrap();
    assert_eq!((config.home.host.as_str(), config.home.user.as_str()), ("a,b,http://a:8008", "u"));
    assert_eq!(config.nodes[1].host, "d,http://d:8008,http://e:8008");
    let wrong = |home: &str| parse(&format!("listen = [\"127.0.0.1:1\"]\nhome = {home}\n")).unwrap_err();
    assert!(wrong("{ conninfo = \"host=a\", patroni = [] }").contains("patroni"));
    assert!(wrong("{ conninfo = \"host=a\", patrony = [] }").contains("patrony"));
}

#[test]
fn what_asks_nobody_may_be_reached_if_that_is_said() {
    let everywhere = "listen = [\"0.0.0.0:1\"]\nmetrics = \"0.0.0.0:2\"\nhome = \"host=a\"\nmetrics_anyone = true\n";
    assert!(parse(&format!("{everywhere}trust_anyone = true")).is_ok());
    assert!(parse(&format!("{everywhere}auth = \"scram\"")).is_ok());
    assert!(parse(everywhere).is_err());
}

#[test]
fn a_password_others_may_read_is_told() {
    let path = std::env::temp_dir().join(format!("herd-mode-{}.toml", std::process::id()));
    let warnings = |mode, password| {
        std::fs::write(&path, format!("listen = [\"127.0.0.1:1\"]\nhome = \"host=a {password}\"\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Config::load(&path).unwrap().warnings
    };
    assert!(warnings(0o644, "password=x")[0].contains("chmod 600"));
    assert!(warnings(0o600, "password=x").is_empty());
    assert!(warnings(0o644, "").is_empty());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn mistakes_are_named() {
    for (text, expected) in [
        ("listen = []\nhome = \"host=a\"", "listen must be at least 1"),
        (&format!("{SMALL}shards = 0"), "shards must be from 1 to 4096, and is 0"),
        (&format!("{SMALL}shard = 5"), "unknown field `shard`"),
        (&format!("{SMALL}[pool]\nsise = 5"), "unknown field `sise`"),
        (&format!("{SMALL}[pool]\nsize = 0"), "pool.size must be at least 1"),
        (&format!("{SMALL}nodes = [\"host=127.0.0.1 port=6501\"]"), "nodes has 127.0.0.1:6501 twice"),
        (&format!("{SMALL}[limits]\nmessage_bytes_max = 10"), "limits.message_bytes_max must be from"),
        (&format!("{SMALL}auth = \"md5\""), "unknown variant `md5`"),
        ("listen = [\"0.0.0.0:5432\"]\nhome = \"host=a\"", "auth is \"trust\", and 0.0.0.0:5432 can be reached"),
        ("listen = [\"127.0.0.1:1\", \"10.0.0.5:1\"]\nauth = \"trust\"\nhome = \"host=a\"", "trust_anyone = true"),
        (&format!("metrics = \"[::]:9090\"\n{SMALL}"), "metrics is [::]:9090, which can be reached"),
        ("listen = [\"nowhere\"]\nhome = \"host=a\"", "invalid socket address"),
        ("listen = [\"127.0.0.1:1\"]\nhome = \"hots=a\"", "\"hots\" is not a keyword"),
        ("listen = [\"127.0.0.1:1\"]", "missing field `home`"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{text:?}\n  gives {error}\n  not {expected}");
        assert!(error.contains("/etc/pgherd/herd.toml"), "{error}");
    }
}
