//! How settings are read, and which errors prevent a start.

use api_types::engine::PullPolicy;

use super::*;

/// The settings of a TOML text and of environment variables without their prefix.
#[expect(clippy::result_large_err, reason = "figment's own jail asks for its own error")]
fn settings(toml: &str, env: &[(&str, &str)]) -> Result<Settings, String> {
    let mut result = Err("the jail did not run".to_owned());
    figment::Jail::expect_with(|jail| {
        jail.create_file("agent.toml", toml)?;
        for (key, value) in env {
            jail.set_env(format!("{ENV_PREFIX}{key}"), value);
        }
        result = Settings::load(Some(Path::new("agent.toml"))).map_err(|error| error.to_string());
        Ok(())
    });
    result
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_the_defaults() {
    let read = settings(
        "orchestrator = 'http://file:1'\nlisten = '127.0.0.1:7'\n[labels]\nzone = 'a'\nrack = 4\n",
        &[
            ("ORCHESTRATOR", "http://env:2"),
            ("CAPACITY__CPU", "1.5"),
            ("CAPACITY__MEMORY", "2gb"),
            ("CAPACITY__GPU", "3"),
            ("ENGINES", "noop, docker"),
            ("ALLOW_LOCAL_PATHS", "/a,/b"),
            ("ALLOW_PRIVATE_ADDRESSES", "true"),
        ],
    )
    .unwrap();
    assert_eq!(read.orchestrator, "http://env:2");
    assert_eq!(read.listen.port(), 7);
    assert_eq!(read.labels["zone"], "a");
    assert_eq!(read.labels["rack"], "4");
    assert_eq!(
        read.capacity,
        CapacitySettings { cpu: Some(1500), memory: Some(2_000_000_000), disk: None, gpu: Some(3) }
    );
    assert_eq!(read.engines, [EngineType::Docker, EngineType::Noop]);
    assert_eq!(read.allow_local_paths, ["/a", "/b"]);
    assert!(read.allow_private_addresses);
    assert_eq!(read.stop_grace_seconds, 10);
}

#[test]
#[expect(clippy::result_large_err, reason = "figment's own jail asks for its own error")]
fn aws_variables_keep_their_names_and_stay_secret() {
    figment::Jail::expect_with(|jail| {
        jail.set_env("AWS_SECRET_ACCESS_KEY", "hush");
        let read = Settings::load(None).map_err(|error| error.to_string())?;
        assert_eq!(read.aws.0["AWS_SECRET_ACCESS_KEY"], "hush");
        let shown = format!("{read:?}");
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && !shown.contains("hush"), "{shown}");
        Ok(())
    });
}

#[test]
fn labels_in_the_environment_are_pairs() {
    let read = settings("", &[("LABELS", "zone=a,disk=ssd")]).unwrap();
    assert_eq!(
        read.labels.into_iter().collect::<Vec<_>>(),
        [("disk".to_owned(), "ssd".to_owned()), ("zone".to_owned(), "a".to_owned())]
    );
}

#[test]
fn credentials_are_read_from_the_file_and_from_the_environment() {
    let file = "[docker]\npull_policy = 'Always'\nconfig_file = '/c'\n\
                [docker.credentials.'registry.example.com:5000']\n\
                username = 'ada'\npassword = 'hush'\n\
                [docker.credentials.'docker.io']\nidentity_token = 'hush'\n";
    let variable = "{\"registry.example.com:5000\"={username=\"bob\",password_file=\"/p\"}}";
    let read = settings(file, &[]).unwrap().docker;
    assert_eq!(read.pull_policy, PullPolicy::Always);
    assert_eq!(read.config_file, Path::new("/c"));
    let wanted = RegistryCredentials {
        username: "ada".to_owned(),
        password: Some(Secret::new("hush")),
        ..RegistryCredentials::default()
    };
    assert_eq!(read.credentials["registry.example.com:5000"], wanted);
    assert_eq!(read.credentials["docker.io"].identity_token, Some(Secret::new("hush")));
    assert!(!format!("{read:?}").contains("hush"), "{read:?}");
    let both = [("DOCKER__CREDENTIALS", variable), ("DOCKER__PULL_POLICY", "never")];
    let read = settings("", &both).unwrap().docker;
    assert_eq!(read.pull_policy, PullPolicy::Never);
    let file = read.credentials["registry.example.com:5000"].password_file.as_deref();
    assert_eq!(file, Some(Path::new("/p")));
}

#[test]
fn a_secret_in_the_wrong_place_is_refused_without_being_repeated() {
    for (toml, env, part) in [
        ("[docker]\ncredentials = 'hush'", &[][..], "credentials by registry is a table"),
        ("[docker.credentials]\nhost = 'hush'", &[], "'host' is a table"),
        ("[docker.credentials.host]\nusername = 'a'\npassword = ['hush']", &[], "expected a text"),
        ("[docker.credentials.host]\nusername = 'a'\npassword = 4321", &[], "put it in quotes"),
        ("[docker.credentials.host]\npassword = 'hush'", &[], "a password needs a username"),
        ("[docker.credentials.host]\nusername = 'a'", &[], "give one of password"),
        (
            "[docker.credentials.host]\npassword = 'hush'\nidentity_token = 'hush'",
            &[],
            "give one of password",
        ),
        ("[docker.credentials.host]\npasword = 'hush'", &[], "unknown field `pasword`"),
        ("[docker.credentials.host]\npassword = 'hush' oops", &[], "TOML"),
        ("", &[("DOCKER__CREDENTIALS", "hush")], "credentials by registry is a table"),
        ("", &[("DOCKER__PULL_POLICY", "sometimes")], "'sometimes' is not a pull policy"),
    ] {
        let error = settings(toml, env).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
        assert!(!error.contains("hush") && !error.contains("4321"), "{error}");
    }
}

#[test]
fn invalid_settings_are_named() {
    for (toml, env, part) in [
        ("", &[("LISTENN", "127.0.0.1:1")][..], "listenn"),
        ("lisen = '127.0.0.1:1'", &[], "lisen"),
        ("[capacity]\ncpus = 1", &[], "cpus"),
        ("", &[("CAPACITY__CPU", "many")], "'many' is not an amount of CPU"),
        ("", &[("LABELS", "zone")], "'zone' is not a label"),
        ("", &[("LABELS", "=x")], "a label needs a key"),
        ("", &[("ENGINES", "podman")], "'podman' is not an engine"),
        ("", &[("ENGINES", "")], "an agent without any engine"),
        ("", &[("LISTEN", "here")], "listen"),
        ("", &[("IPFS__API", "127.0.0.1:5001")], "ipfs.api: '127.0.0.1:5001' is not an http"),
        ("", &[("RESULTS__BASE_URL", "http://")], "results.base_url: 'http://…' is not an http"),
        ("", &[("INPUTS__CACHE_BYTES", "lots")], "'lots' is not an amount of bytes"),
        ("", &[("DOCKER__IMAGES_MAX_PERCENT", "0")], "0 is not a percentage from 1 to 100"),
        ("", &[("DOCKER__HOST", "ssh://there")], "'ssh://there' begins with none of"),
        ("", &[("DOCKER__CAPABILITIES", "CHOWN,NET_ADMIN")], "'NET_ADMIN' is none of those"),
        ("", &[("DOCKER__CAPABILITIES", "all")], "'all' is none of those that tasks may have"),
        ("", &[("JOIN_TOKEN", "jn1.a.b.c")], "join_token: is sent over https alone"),
        ("", &[("JOIN_TOKEN_FILE", "/run/join")], "join_token_file: is sent over https alone"),
        ("orchestrator = 'https://h'\njoin_token = 'x'", &[], "join_token: is not a join token"),
        (
            "orchestrator = 'https://h'\njoin_token = 'x'\njoin_token_file = 'y'",
            &[],
            "join_token_file: join_token is set as well",
        ),
    ] {
        let error = settings(toml, env).unwrap_err();
        assert!(error.to_lowercase().contains(&part.to_lowercase()), "{part}: {error}");
    }
}

#[test]
fn a_named_file_that_is_missing_is_an_error() {
    let error = Settings::load(Some(Path::new("/nowhere/agent.toml"))).unwrap_err().to_string();
    assert!(error.contains("/nowhere/agent.toml"), "{error}");
}
