//! Settings are read with their defaults, and refused with their name.

use super::*;

fn extract(toml: &str) -> Result<Settings, String> {
    let figment = Figment::from(Serialized::defaults(Settings::default()));
    Settings::extract(&figment.merge(Toml::string(toml))).map_err(|error| error.to_string())
}

#[test]
fn unset_settings_have_their_defaults() {
    let settings = extract("node_ttl = 5").unwrap();
    assert_eq!(settings, Settings { node_ttl: 5, ..Settings::default() });
    assert_eq!(settings.listen.to_string(), "127.0.0.1:1234");
}

#[test]
fn the_defaults_are_those_of_the_scheduler() {
    let scheduler = Settings::default().scheduler();
    let expected = scheduler::Settings::default();
    assert_eq!(format!("{scheduler:?}"), format!("{expected:?}"));
    let month = Duration::from_secs(30 * DAY_SECONDS);
    let expected = Retention { age: Some(month), count: Some(1_000_000) };
    assert_eq!(Settings::default().retention(), expected);
}

#[test]
fn zero_times_and_counts_mean_no_limit() {
    let text = "drain_deadline = 7\nnode_retention = 8\njob_retention = 9\n\
                job_retention_count = 10";
    let settings = extract(text).unwrap();
    let scheduler = settings.scheduler();
    let seconds = Duration::from_secs;
    assert_eq!((scheduler.drain_deadline, scheduler.node_retention), (seconds(7), seconds(8)));
    let expected = Retention { age: Some(seconds(9)), count: Some(10) };
    assert_eq!(settings.retention(), expected);

    let text = "drain_deadline = 0\nstarvation_seconds = 0\nnode_retention = 0\njob_retention = 0\n\
                job_retention_count = 0";
    let settings = extract(text).unwrap();
    assert_eq!(settings.scheduler().drain_deadline, Duration::ZERO);
    assert_eq!(settings.scheduler().node_retention, Duration::MAX);
    assert_eq!(settings.scheduler().starvation, None);
    assert_eq!(settings.retention(), Retention::default());
}

#[test]
fn allowed_hosts_are_a_list_or_a_text_with_commas() {
    for toml in ["allowed_hosts = ['a', 'b.example']", "allowed_hosts = 'a, b.example,'"] {
        assert_eq!(extract(toml).unwrap().allowed_hosts, ["a", "b.example"], "{toml}");
    }
    assert!(extract("allowed_hosts = ''").unwrap().allowed_hosts.is_empty());
}

#[test]
fn every_unknown_key_is_named() {
    let error =
        extract("listen = 1\ndatadir = 'x'\nnode_tll = 2\n[storage]\nkind = 'x'").unwrap_err();
    for key in ["'datadir' (from TOML source string)", "'node_tll'", "'storage'"] {
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn a_value_of_the_wrong_kind_is_named() {
    for (toml, word) in [
        ("listen = 'nowhere'", "listen"),
        ("node_ttl = 'long'", "node_ttl"),
        ("node_ttl = 1", "node_ttl: must be between 2 and 86400"),
        ("drain_deadline = -1", "drain_deadline"),
        ("node_retention = 9000000000", "node_retention: must be at most 3153600000 seconds"),
        ("job_retention = 9000000000", "job_retention: must be at most"),
        ("job_retention_count = 'all'", "job_retention_count"),
        ("ui = 'yes'", "ui"),
        ("allowed_hosts = [1]", "allowed_hosts"),
        ("allowed_hosts = 'a.example, http://b'", "allowed_hosts: 'http://b' is not a host"),
        ("allowed_hosts = ['a.example:1234']", "allowed_hosts: 'a.example:1234' is not"),
        ("log_format = 'xml'", "log_format"),
        ("otlp.endpoint = 'collector'", "otlp.endpoint: is not an http or https URL"),
        ("otlp.sampling_ratio = 2", "otlp.sampling_ratio: must be between 0 and 1"),
        ("otlp.headers = 'x'", "headers must have the form name=value"),
        ("otlp.endpont = 'x'", "endpont"),
        ("insecure = 1", "insecure"),
        ("join_token_file = 'a'", "join_token_file: is not used: 127.0.0.1:1234 is served"),
        ("tls.cert = 'a'", "tls.key: tls.cert and tls.key are set together"),
        ("tls = { cert = 'a', key = 'b' }", "tls.cert: is not used: 127.0.0.1:1234 is served"),
        ("tls.names = 'a b'", "tls.names: 'a b' is neither a host name nor an address"),
        ("tls.node_lifetime = 1", "tls.node_lifetime: must be between 3 and"),
        ("tls.crt = 'x'", "crt"),
        ("data_dir = ''", "data_dir: must name a directory"),
        ("status_listen = 'a'", "status_listen"),
        (
            "listen = '127.0.0.1:1'\nstatus_listen = '127.0.0.1:1'",
            "status_listen: 127.0.0.1:1 is the address of listen",
        ),
    ] {
        let error = extract(toml).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_named_file_that_is_missing_is_an_error() {
    let error = Settings::load(Some(Path::new("/nonexistent/settings.toml"))).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the settings file /nonexistent/settings.toml");
}
