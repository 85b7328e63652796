//! Sign-in at an issuer that others wrote: `oidc-provider-mock` from PyPI.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use testbed::harness::ClusterSpec;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

/// Names the interpreter that has the package; `.ci/run` installs it.
const PYTHON_VARIABLE: &str = "OIDC_PYTHON";

const PACKAGE: &str = "oidc_provider_mock";

/// What it prints once it listens; the URL follows.
const LISTENS: &str = "Uvicorn running on ";

/// How long the program may take to listen: it is one of many modules in Python.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

pub(super) const AUDIENCE: &str = "jobs";

/// Who has an account: a submitter, and somebody without a role.
const ACCOUNTS: [&str; 2] = [
    r#"{"sub": "ada", "email": "ada@example.org", "email_verified": true, "groups": ["all", "platform"]}"#,
    r#"{"sub": "eve", "email": "eve@example.org", "email_verified": true, "groups": ["all"]}"#,
];

const RULES: &str = r#"[{claims={groups="platform"},role="submitter",namespaces=["default"]}]"#;

/// The issuer; dropping it ends it.
pub(super) struct Provider {
    pub(super) url: String,
    _child: Child,
    /// Kept open, so that it can go on printing.
    _output: Lines<BufReader<ChildStderr>>,
}

// === impl Provider ===

impl Provider {
    /// None, with the reason printed, where the program is not there; where `CI` is set that is a
    /// failure.
    pub(super) async fn start() -> Option<Self> {
        let python = crate::python::with(PACKAGE, PYTHON_VARIABLE).await?;
        let mut command = Command::new(python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/oidc.py"));
        command.args(["--port", "0"]);
        for account in ACCOUNTS {
            command.args(["--user-claims", account]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().expect("run the issuer");
        let mut output = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let url = timeout(STARTS_WITHIN, listening(&mut output)).await;
        let url = url.expect("the issuer listens in time");
        Some(Self { url, _child: child, _output: output })
    }

    /// An orchestrator that takes its ID tokens.
    pub(super) fn trusted(&self, spec: ClusterSpec) -> ClusterSpec {
        spec.setting("ORCHESTRATOR_OIDC__ISSUER", &self.url)
            .setting("ORCHESTRATOR_OIDC__AUDIENCE", AUDIENCE)
            .setting("ORCHESTRATOR_OIDC__RULES", RULES)
    }
}

async fn listening(output: &mut Lines<BufReader<ChildStderr>>) -> String {
    let mut said = String::new();
    while let Some(line) = output.next_line().await.expect("read what the issuer prints") {
        if let Some((_, rest)) = line.split_once(LISTENS) {
            return rest.split(' ').next().unwrap_or_default().to_owned();
        }
        said = format!("{said}{line}\n");
    }
    panic!("the issuer ended before it listened:\n{said}");
}

#[tokio::test]
async fn jobctl_signs_somebody_in_at_the_issuer() {
    let Some(provider) = Provider::start().await else { return };
    let spec = provider.trusted(ClusterSpec::new().protected());
    let cluster = spec.start_without_docker().await;
    let program = tokio::task::spawn_blocking(|| programs::binary("jobctl")).await.expect("built");
    let home = tempfile::tempdir().expect("a directory");
    let ca = cluster.orchestrator.data_dir().join("ca.crt");
    let jobctl = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("XDG_CONFIG_HOME", home.path()).env("JOBCTL_CA", &ca);
        command.env("JOBCTL_URL", cluster.orchestrator.base_url()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    };
    let mut login = jobctl(&["login", "--oidc"]).spawn().expect("run jobctl");
    let mut stderr = BufReader::new(login.stderr.take().expect("a pipe")).lines();
    let mut url = String::new();
    while url.is_empty() {
        let line = stderr.next_line().await.expect("read").expect("it prints a URL");
        if line.trim().starts_with("http") {
            line.trim().clone_into(&mut url);
        }
    }
    assert!(url.starts_with(&provider.url), "{url}");
    // What the form of the issuer's page sends; the issuer then leads back to jobctl.
    let browser = reqwest::Client::builder().no_proxy().build().expect("a client");
    let form = browser.post(&url).header("Content-Type", "application/x-www-form-urlencoded");
    let shown = form.body("sub=ada").send().await.expect("an answer").text().await.expect("text");
    assert!(shown.contains("goes on in the terminal"), "{shown}");
    let mut said = String::new();
    let mut stdout = login.stdout.take().expect("a pipe");
    stdout.read_to_string(&mut said).await.expect("read what it prints");
    while let Some(line) = stderr.next_line().await.expect("read") {
        said = format!("{said}{line}\n");
    }
    assert!(login.wait().await.expect("its end").success(), "{said}");
    assert!(said.contains("as ada@example.org (submitter of default, until "), "{said}");

    let who = jobctl(&["whoami"]).output().await.expect("run jobctl");
    let who = String::from_utf8_lossy(&who.stdout).into_owned();
    assert!(who.starts_with("ada@example.org (submitter of default"), "{who}");
}
