//! An issuer of OpenID Connect that others wrote: `oidc-provider-mock` from PyPI.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use crate::harness::ClusterSpec;

/// Names the interpreter that has the package; `.ci/run` installs it.
const PYTHON_VARIABLE: &str = "OIDC_PYTHON";

const PACKAGE: &str = "oidc_provider_mock";

/// What it prints once it listens; the URL follows.
const LISTENS: &str = "Uvicorn running on ";

/// How long the program may take to listen: it is one of many modules in Python.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

const AUDIENCE: &str = "jobs";

/// Who has an account: a submitter, and a person without a role.
const ACCOUNTS: [&str; 2] = [
    r#"{"sub": "ada", "email": "ada@example.org", "email_verified": true, "groups": ["all", "platform"]}"#,
    r#"{"sub": "eve", "email": "eve@example.org", "email_verified": true, "groups": ["all"]}"#,
];

const RULES: &str = r#"[{claims={groups="platform"},role="submitter",namespaces=["default"]}]"#;

/// The issuer; dropping it ends it.
pub struct Provider {
    pub url: String,
    _child: Child,
    /// Kept open, so that it can go on printing.
    _output: Lines<BufReader<ChildStderr>>,
}

// === impl Provider ===

impl Provider {
    /// None, with the reason printed, where the program is not there; where `CI` is set that is a
    /// failure.
    pub async fn start() -> Option<Self> {
        let python = crate::python::with(PACKAGE, PYTHON_VARIABLE).await?;
        let mut command = Command::new(python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/issuer.py"));
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
    pub fn trusted(&self, spec: ClusterSpec) -> ClusterSpec {
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
