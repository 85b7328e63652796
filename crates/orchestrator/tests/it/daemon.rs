//! The daemon as a process: its settings, its exit codes, its shutdown.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

fn daemon(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orchestrator"));
    command
        .env_clear()
        .env("ORCHESTRATOR_LISTEN", "127.0.0.1:0")
        .env("ORCHESTRATOR_DATA_DIR", data_dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a daemon that exits by itself: its exit code and its output.
fn ended(command: &mut Command) -> (i32, String) {
    let Output { status, stdout, stderr } = command.output().expect("run the daemon");
    let said = [stdout, stderr].concat();
    (status.code().expect("no signal"), String::from_utf8(said).expect("UTF-8"))
}

/// Reads the daemon's log until it serves; returns that line.
fn serving(child: &mut Child) -> String {
    let log = BufReader::new(child.stderr.as_mut().expect("piped"));
    log.lines().map_while(Result::ok).find(|line| line.contains("serving")).expect("it serves")
}

#[test]
fn the_health_of_a_daemon_is_that_of_its_status_port() {
    let dir = tempfile::tempdir().unwrap();
    let status = ("ORCHESTRATOR_STATUS_LISTEN", "127.0.0.1:0");
    let mut child = daemon(dir.path()).envs([status]).spawn().unwrap();
    let log = BufReader::new(child.stderr.as_mut().expect("piped"));
    let mut lines = log.lines().map_while(Result::ok);
    let opened = lines.find(|line| line.contains("the status port is open")).expect("it opens");
    let address = opened.split("address=").nth(1).expect("an address").trim().to_owned();
    lines.find(|line| line.contains("serving")).expect("it serves");
    // Nothing answers at the address of the API here.
    let health = || {
        let variables = [("ORCHESTRATOR_STATUS_LISTEN", &*address)];
        ended(
            daemon(dir.path())
                .envs(variables)
                .env("ORCHESTRATOR_LISTEN", "127.0.0.1:1")
                .arg("--health"),
        )
    };
    assert_eq!(health(), (0, String::new()));
    stop(child, Signal::TERM);
    let (code, said) = health();
    assert_eq!(code, 69);
    assert!(said.contains(&format!("nothing answers at {address}")), "{said}");
}

#[test]
fn help_and_version_are_printed() {
    let dir = tempfile::tempdir().unwrap();
    let (code, said) = ended(daemon(dir.path()).arg("--help"));
    assert_eq!(code, 0);
    for word in ["ORCHESTRATOR_LISTEN", "ORCHESTRATOR_NODE_TTL", "--config FILE"] {
        assert!(said.contains(word), "{said}");
    }
    let (code, said) = ended(daemon(dir.path()).arg("--version"));
    assert_eq!(code, 0);
    assert!(said.starts_with(concat!("orchestrator v", env!("CARGO_PKG_VERSION"))), "{said}");
}

/// An issuer of ID tokens, as the environment has it.
fn with_issuer(command: &mut Command, rules: &str) {
    command
        .env("ORCHESTRATOR_AUTH", "required")
        .env("ORCHESTRATOR_OIDC__ISSUER", "https://issuer.example")
        .env("ORCHESTRATOR_OIDC__AUDIENCE", "jobs")
        .env("ORCHESTRATOR_OIDC__RULES", rules);
}

#[test]
fn an_issuer_whose_rules_admit_everybody_or_whose_files_are_missing_refuses_the_start() {
    let dir = tempfile::tempdir().unwrap();
    for (rules, variable, part) in [
        (
            "[{claims={aud=\"jobs\"},role=\"admin\"}]",
            ("RUST_LOG", "info"),
            "oidc.rules: rule 1: has no claim other than iss, aud and azp",
        ),
        (
            "[{claims={groups=\"a\"},role=\"admin\"}]",
            ("ORCHESTRATOR_OIDC__CA_FILE", "/nowhere.crt"),
            "cannot read oidc.ca_file at /nowhere.crt",
        ),
    ] {
        let mut command = daemon(dir.path());
        with_issuer(&mut command, rules);
        let (code, said) = ended(command.envs([variable]));
        assert_eq!(code, 64, "{said}");
        assert!(said.contains(part), "{part} is not in {said}");
    }
    // The absence of an issuer does not matter to the start.
    let mut command = daemon(dir.path());
    with_issuer(&mut command, "[{claims={groups=\"a\"},role=\"admin\"}]");
    let mut child = command.spawn().unwrap();
    serving(&mut child);
    stop(child, Signal::TERM);
}

/// Arguments, environment variables, and a part of the error message.
type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);

#[test]
fn bad_settings_exit_with_64_and_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("settings.toml");
    std::fs::write(&config, "node_ttl = 'for ever'\n").unwrap();
    let config = config.to_str().unwrap();
    let cases: [Case; 7] = [
        (&["--port"], &[], "unknown argument '--port'"),
        (&["--config"], &[], "--config needs a file"),
        (&["--config", "/nowhere.toml"], &[], "cannot read the settings file /nowhere.toml"),
        (&["--config", config], &[], "node_ttl"),
        (&[], &[("ORCHESTRATOR_LISTEN", "nowhere")], "socket address"),
        (&[], &[("ORCHESTRATOR_NODE_TTL", "0")], "node_ttl: must be between 2 and 86400"),
        (
            &[],
            &[("ORCHESTRATOR_PORT", "1"), ("ORCHESTRATOR_STORAGE__KIND", "x")],
            "'port' (from `ORCHESTRATOR_` environment variable(s)), 'storage'",
        ),
    ];
    for (arguments, variables, part) in cases {
        let (code, said) =
            ended(daemon(dir.path()).args(arguments).envs(variables.iter().copied()));
        assert_eq!(code, 64, "{said}");
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn the_environment_overrides_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("settings.toml");
    std::fs::write(&config, "listen = 'nowhere'\n").unwrap();
    let mut child = daemon(dir.path()).arg("--config").arg(&config).spawn().unwrap();
    serving(&mut child);
    stop(child, Signal::TERM);
}

#[test]
fn a_missing_resource_exits_with_69() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = ended(daemon(dir.path()).env("ORCHESTRATOR_LISTEN", &address));
    assert_eq!(code, 69, "{said}");
    assert!(said.contains(&format!("listen on {address}")), "{said}");

    let (code, said) = ended(&mut daemon(Path::new("/proc/nowhere")));
    assert_eq!(code, 69, "{said}");
    assert!(said.contains("/proc/nowhere"), "{said}");

    let mut child = daemon(dir.path()).spawn().unwrap();
    serving(&mut child);
    let (code, said) = ended(&mut daemon(dir.path()));
    assert_eq!(code, 69, "{said}");
    assert!(said.contains("in use by another orchestrator"), "{said}");
    stop(child, Signal::INT);
}

#[test]
fn both_signals_stop_the_daemon_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = tempfile::tempdir().unwrap();
        let mut child = daemon(dir.path()).spawn().unwrap();
        serving(&mut child);
        stop(child, signal);
    }
}

/// Stops the daemon and asserts a clean exit.
fn stop(mut child: Child, signal: Signal) {
    let pid = Pid::from_child(&child);
    kill_process(pid, signal).expect("it runs");
    let mut rest = String::new();
    let log = child.stderr.as_mut().expect("piped");
    log.read_to_string(&mut rest).expect("UTF-8");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0), "{rest}");
    assert!(rest.contains("stopped"), "{rest}");
}

/// One request on a separate connection, answered within a bound.
fn asked(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a bound");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time");
    answer
}

/// As behind a stopped terminal, or a journal that hangs.
#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = daemon(dir.path()).env("RUST_LOG", "trace").spawn().unwrap();
    let line = serving(&mut child);
    let address = line.split("address=").nth(1).expect("an address");
    let address = address.split_whitespace().next().expect("an address").to_owned();
    // Far more lines than the pipe and the queue before it hold.
    let dropped = (0..100).find_map(|_| {
        for _ in 0..100 {
            let answer = asked(&address, "/livez");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
        let metrics = asked(&address, "/metrics");
        let count = metrics.lines().find_map(|line| line.strip_prefix("log_lines_dropped_total "));
        count?.trim().parse::<f64>().ok().filter(|count| *count > 0.0)
    });
    assert!(dropped.is_some(), "the log never was full");
    // Once it is read again, it goes on, and ends with the last line.
    stop(child, Signal::TERM);
}
