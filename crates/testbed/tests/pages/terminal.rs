//! A terminal with curl and jobctl, for the lines that pages copy.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::harness::binary;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::browser::Browser;

pub(super) const PROGRAMS: [&str; 2] = ["curl", "jobctl"];

/// A line does one thing, and the service is on this machine.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Clicks a button that copies, and returns what is in the clipboard then.
const COPY: &str = "
    const [label, done] = arguments;
    const copy = async () => {
        await navigator.clipboard.writeText('');
        const buttons = [...document.querySelectorAll(`[aria-label=\"${label}\"]`)];
        const button = buttons.find((found) => found.offsetParent);
        if (!button) return { fault: `no button '${label}'` };
        button.click();
        for (let tries = 0; tries < 200; tries += 1) {
            const text = await navigator.clipboard.readText();
            if (text) return text;
            await new Promise((resolve) => setTimeout(resolve, 25));
        }
        return { fault: 'nothing was copied' };
    };
    copy().then(done, (error) => done({ fault: String(error) }));
";

/// Lets the page use the clipboard, as a click of a person does.
pub(super) async fn permit_clipboard(browser: &Browser) {
    let permissions = json!({ "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] });
    browser.devtools("Browser.grantPermissions", permissions).await;
}

/// The lines for a program that the page offers for this.
pub(super) async fn copied(browser: &Browser, program: &str, what: &str) -> String {
    let label = json!(format!("Copy as {program}: {what}"));
    let answer = browser.client.execute_async(COPY, vec![label]).await.expect("copy");
    match answer {
        Value::String(text) => text,
        other => panic!("{program}, {what}: {other}; the page:\n{}", browser.text().await),
    }
}

/// A shell with a separate home.
pub(super) struct Terminal {
    home: TempDir,
    variables: Vec<(&'static str, String)>,
}

// === impl Terminal ===

impl Terminal {
    pub(super) fn new() -> Self {
        Self { home: tempfile::tempdir().expect("a directory"), variables: Vec::new() }
    }

    /// One whose programs have a token and trust a CA, as docs/security.md sets them up.
    pub(super) fn signed_in(token: &str, ca: &Path) -> Self {
        let mut terminal = Self::new();
        let home = terminal.home.path();
        let (token_file, config) = (home.join("token"), home.join("config.yaml"));
        std::fs::write(&token_file, token).expect("write the token");
        let context = json!({ "current": "it", "contexts": { "it": {
            "url": "https://127.0.0.1:1",
        } } });
        std::fs::write(&config, context.to_string()).expect("write the configuration");
        terminal.variables = vec![
            ("TOKEN", token.to_owned()),
            ("CURL_CA_BUNDLE", ca.display().to_string()),
            ("JOBCTL_TOKEN_FILE", token_file.display().to_string()),
            ("JOBCTL_CA", ca.display().to_string()),
            ("JOBCTL_CONFIG", config.display().to_string()),
        ];
        terminal
    }

    /// The same with a variable.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// The directory in which its lines leave files.
    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    fn shell(&self, lines: &str) -> Command {
        let programs = binary("jobctl").parent().expect("a program lies in a directory");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell
            .args(["-e", "-c", lines])
            .current_dir(self.home())
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home())
            .envs(self.variables.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        shell
    }

    /// What the lines print; fails if they do.
    pub(super) async fn run(&self, lines: &str) -> String {
        let output = timeout(ENDS_WITHIN, self.shell(lines).output()).await;
        let output = output.expect("the line ends in time").expect("run a shell");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{lines}\nends with {}: {printed}{errors}", output.status);
        printed
    }

    /// The same, as JSON.
    pub(super) async fn json(&self, lines: &str) -> Value {
        let printed = self.run(lines).await;
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{lines}\n{error}: {printed}"))
    }

    /// Lines that go on until they are interrupted print a line with this text.
    pub(super) async fn prints(&self, lines: &str, text: &str) {
        // The shell becomes the program, so that its end is the program's.
        let mut child = self
            .shell(&format!("exec {lines}"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("run a shell");
        let mut printed = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let read = async {
            while let Some(line) = printed.next_line().await.expect("read what it prints") {
                if line.contains(text) {
                    return;
                }
            }
            panic!("{lines}\nends without '{text}'");
        };
        timeout(ENDS_WITHIN, read).await.unwrap_or_else(|_| panic!("{lines}\nprints no '{text}'"));
        child.kill().await.expect("end it");
    }
}
