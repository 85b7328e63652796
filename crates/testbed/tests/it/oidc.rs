//! Sign-in at an issuer that others wrote.

use std::process::Stdio;

use testbed::harness::ClusterSpec;
use testbed::issuer::Provider;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

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
