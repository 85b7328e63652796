//! What owners, operators and admins do on the pages of Access, over TLS: join tokens, the audit log,
//! and the lines that both and tokens and namespaces are copied as.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use fantoccini::Locator;
use serde_json::json;
use tempfile::TempDir;
use testbed::harness::{Cluster, ClusterSpec, binary, eventually};

use super::access::{fill, offers};
use super::accessibility::{assert_accessible, axe, prefer_scheme};
use super::browser::{Browser, in_browser};
use super::guarded::{sign_in, sign_out};
use super::secrets::SECRETS;
use super::terminal::{PROGRAMS, Terminal, copied, permit_clipboard};

const JOIN_TOKENS: &str = "/access/join-tokens";
const AUDIT: &str = "/access/audit";

/// A service that asks for credentials over TLS.
pub(super) struct Protected {
    pub(super) cluster: Cluster,
    pub(super) admin: String,
    data: TempDir,
}

// === impl Protected ===

impl Protected {
    pub(super) async fn start() -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let path = data.path().display().to_string();
        let spec = ClusterSpec::new().protected().setting("ORCHESTRATOR_DATA_DIR", &path);
        let cluster = spec.start_without_agents().await;
        let admin = std::fs::read_to_string(data.path().join("admin.token")).expect("a token");
        Self { cluster, admin: admin.trim().to_owned(), data }
    }

    pub(super) fn terminal(&self) -> Terminal {
        Terminal::signed_in(&self.admin, &self.data.path().join("ca.crt"))
    }

    pub(super) async fn token(&self, name: &str, role: &str) -> String {
        let terminal = self.terminal();
        let url = self.cluster.orchestrator.base_url();
        let line = format!("jobctl --url {url} token create '{name}' --role {role} -o json");
        terminal.json(&line).await["Secret"].as_str().expect("a secret").to_owned()
    }
}

/// An agent as a person starts it; its process group ends with it.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Runs the lines of the page in a shell, on a free port.
fn start_agent(lines: &str, home: &TempDir) -> Started {
    let programs = binary("compute-agent").parent().expect("a program lies in a directory");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let lines = lines.replace("127.0.0.1:1235", "127.0.0.1:0");
    let child = Command::new("sh")
        .args(["-e", "-c", &lines])
        .env_clear()
        .env("PATH", path)
        .env("HOME", home.path())
        .env("COMPUTE_AGENT_ENGINES", "noop")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    Started(child.expect("run a shell"))
}

async fn commands(browser: &Browser) -> Vec<String> {
    let shown = "[...document.querySelectorAll('dialog .command pre')].map((p) => p.textContent)";
    serde_json::from_value(browser.value(shown).await).expect("texts")
}

#[tokio::test]
async fn a_join_token_is_shown_once_with_the_commands_that_make_a_node() {
    let protected = Protected::start().await;
    let operator = protected.token("night shift", "operator").await;
    let home = tempfile::tempdir().expect("a directory");
    in_browser(&protected.cluster, async |browser| {
        browser.visit("/nodes").await;
        sign_in(browser, &operator).await;
        // Where no node has joined, the page leads to what lets one join.
        browser.click("Join tokens").await;
        browser.wait_for_text("No join token").await;
        assert!(!offers(browser, "Tokens and namespaces").await, "an operator manages no tokens");
        assert!(!offers(browser, "Audit log").await, "an operator reads the audit log");
        browser.click("Create a join token…").await;
        fill(browser, "Labels of these nodes", "zone=a").await;
        browser
            .client
            .find(Locator::Css("[aria-label=\"CPU, in cores\"]"))
            .await
            .expect("CPU")
            .send_keys("1.5")
            .await
            .expect("type");
        browser.click("Create").await;
        browser.wait_for_text("It is shown this once.").await;
        let shown = commands(browser).await;
        let [secret, lines] = &shown[..] else { panic!("{shown:?}") };
        assert!(secret.starts_with("jn1."), "{secret}");
        assert!(lines.contains(secret), "{lines}");
        browser.click("Done").await;
        browser.wait_for_text("zone=a").await;
        browser.wait_for_text("1.5 CPU").await;
        assert!(!browser.text().await.contains(secret), "the secret is still shown");

        let _agent = start_agent(lines, &home);
        browser.visit("/nodes").await;
        browser
            .wait_for(
                "the node is listed",
                "document.querySelectorAll('main tbody a.main').length > 1",
            )
            .await;
        let nodes = protected.cluster.client().list_nodes(&api_client::NodesQuery::default()).await;
        let nodes = nodes.expect("the nodes").nodes;
        let joined = nodes.iter().find(|node| node.labels.contains_key("zone")).expect("the node");
        assert!(joined.compute_node_info.max_capacity.cpu <= 1.5, "{joined:?}");

        // It was good for one node; another is revoked.
        browser.visit(JOIN_TOKENS).await;
        browser.wait_for_text("used up").await;
        browser.click("Create a join token…").await;
        browser.click("Create").await;
        browser.wait_for_text("It is shown this once.").await;
        let unused = commands(browser).await.remove(0);
        browser.click("Done").await;
        let id = unused.split('.').nth(1).expect("an ID");
        click_labelled(browser, &format!("Revoke {id}…")).await;
        browser.click("Revoke the join token").await;
        let gone = format!("!document.querySelector('main tbody').innerText.includes('{id}')");
        browser.wait_for("it is gone", &gone).await;
        let other = tempfile::tempdir().expect("a directory");
        let refused = start_agent(&lines.replace(secret, &unused), &other).0.wait();
        assert_eq!(refused.expect("it ends").code(), Some(69));
        browser.assert_no_fault("join tokens").await;
    })
    .await;
}

/// Lets a dialog make something by its copied line instead of its button.
pub(super) async fn by_line(
    browser: &Browser,
    terminal: &Terminal,
    program: &str,
    what: &str,
) -> String {
    let line = copied(browser, program, what).await;
    browser.click("Cancel").await;
    terminal.run(&line).await
}

/// Clicks what this label names.
pub(super) async fn click_labelled(browser: &Browser, label: &str) {
    let click = format!("document.querySelector('[aria-label={}]').click() ?? true", json!(label));
    browser
        .wait_for(
            label,
            &format!("document.querySelector('[aria-label={}]') !== null", json!(label)),
        )
        .await;
    assert_eq!(browser.value(&click).await, json!(true));
}

#[tokio::test]
async fn copied_lines_manage_tokens_namespaces_and_join_tokens() {
    let protected = Protected::start().await;
    let terminal = protected.terminal();
    in_browser(&protected.cluster, async |browser| {
        permit_clipboard(browser).await;
        browser.visit("/access").await;
        sign_in(browser, &protected.admin).await;
        for program in PROGRAMS {
            let list = async |what: &str| terminal.run(&copied(browser, program, what).await).await;
            browser.visit("/access").await;
            browser.click("Create a namespace…").await;
            fill(browser, "Name", "ci").await;
            fill(browser, "Description", "it's CI").await;
            by_line(browser, &terminal, program, "creating the namespace").await;
            assert!(list("the list of namespaces").await.contains("it's CI"));
            browser.visit("/access").await;
            click_labelled(browser, "Edit ci…").await;
            fill(browser, "Description", ", once more").await;
            by_line(browser, &terminal, program, "saving the namespace").await;
            assert!(list("the list of namespaces").await.contains("it's CI, once more"));

            browser.visit("/access").await;
            browser.click("Create a token…").await;
            fill(browser, "Name", "build server").await;
            let made = by_line(browser, &terminal, program, "creating the token").await;
            assert!(made.contains("jt1_"), "{made}");
            assert!(list("the list of tokens").await.contains("build server"));
            browser.visit("/access").await;
            click_labelled(browser, "Revoke build server…").await;
            by_line(browser, &terminal, program, "Revoke the token").await;
            assert!(!list("the list of tokens").await.contains("build server"));
            click_labelled(browser, "Delete ci…").await;
            by_line(browser, &terminal, program, "Delete the namespace").await;
            assert!(!list("the list of namespaces").await.contains("once more"));

            browser.visit(JOIN_TOKENS).await;
            browser.click("Create a join token…").await;
            fill(browser, "Labels of these nodes", "zone=a\nrack=7").await;
            browser
                .client
                .find(Locator::Css("[aria-label=\"Memory, in GB\"]"))
                .await
                .expect("memory")
                .send_keys("4.5")
                .await
                .expect("type");
            let made = by_line(browser, &terminal, program, "creating the join token").await;
            assert!(made.contains("jn1."), "{made}");
            let bound = protected.cluster.client().list_node_tokens().await.expect("the tokens");
            let [token] = &bound.node_tokens[..] else { panic!("{bound:?}") };
            assert_eq!(token.labels["rack"], "7");
            assert_eq!(token.max_capacity.map(|most| most.memory), Some(4_500_000_000));
            assert!(list("the list of join tokens").await.contains("zone"));
            browser.visit(JOIN_TOKENS).await;
            browser.click("Revoke…").await;
            by_line(browser, &terminal, program, "Revoke the join token").await;
            let none = protected.cluster.client().list_node_tokens().await.expect("the tokens");
            assert!(none.node_tokens.is_empty(), "{none:?}");

            browser.visit(&format!("{AUDIT}?operation=createNodeToken")).await;
            browser.wait_for_text("Verified").await;
            let printed = list("these records").await;
            assert!(
                printed.contains("createNodeToken") && !printed.contains("revoke"),
                "{printed}"
            );
        }
        browser.assert_no_fault("copies of access").await;
    })
    .await;
}

#[tokio::test]
async fn the_audit_log_is_read_narrowed_and_verified() {
    let protected = Protected::start().await;
    let viewer = protected.token("auditor", "viewer").await;
    let client = protected.cluster.client();
    for _ in 0..120 {
        let id = client
            .create_node_token(&api_types::joining::CreateNodeToken::default())
            .await
            .expect("a token")
            .node_token
            .id;
        client.revoke_node_token(&id).await.expect("revoke it");
    }
    let rows =
        |count: usize| format!("document.querySelectorAll('main tbody tr').length === {count}");
    in_browser(&protected.cluster, async |browser| {
        browser.visit(AUDIT).await;
        sign_in(browser, &viewer).await;
        browser.wait_for_text("The audit log needs the role admin").await;
        sign_out(browser).await;
        sign_in(browser, &protected.admin).await;
        browser.visit(AUDIT).await;
        browser.wait_for("a page", &rows(100)).await;
        browser
            .wait_for_text("Verified: 100 records, each with its hash and that of the one before")
            .await;
        let top = "document.querySelector('main tbody td').textContent";
        let first = browser.value(top).await;
        browser.click("Show 100 more").await;
        browser.wait_for("two pages", &rows(200)).await;
        browser.wait_for_text("Verified: 200 records").await;
        // What is new is counted above rows that stay.
        let namespace = api_types::access::PutNamespace::default();
        client.put_namespace("new", &namespace).await.expect("a namespace");
        browser.wait_for_text("1 new").await;
        assert_eq!(browser.value(top).await, first);
        browser.click("1 new").await;
        browser.wait_for_text("putNamespace").await;
        let field =
            browser.client.find(Locator::Css("[aria-label=Operation]")).await.expect("a filter");
        field.send_keys("createToken").await.expect("type");
        browser.wait_for("one is left", &rows(1)).await;
        browser.wait_for_text("Verified: 1 record, each with its hash.").await;
        assert_eq!(browser.value("location.search").await, json!("?operation=createToken"));
        browser.assert_no_fault("audit").await;
    })
    .await;
}

#[tokio::test]
#[ignore = "long"]
async fn the_pages_of_access_are_accessible_and_go_by_keys() {
    let protected = Protected::start().await;
    let axe = axe();
    let axe = axe.as_deref();
    let client = protected.cluster.client();
    let labels = [("zone", "a"), ("room", "the basement below the north wing")];
    let request = api_types::joining::CreateNodeToken {
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        max_capacity: Some(api_types::quantity::Capacity {
            cpu: 8.0,
            memory: 64_000_000_000,
            disk: 0,
            gpu: 1,
        }),
        ..Default::default()
    };
    client.create_node_token(&request).await.expect("a token");
    let viewer = protected.token("auditor", "viewer").await;
    in_browser(&protected.cluster, async |browser| {
        for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)] {
            browser.resize(width, 800).await;
            prefer_scheme(browser, scheme).await;
            let of = |name: &str| format!("{name}-{scheme}-{width}");
            browser.visit(AUDIT).await;
            if browser.text().await.contains("Sign out") {
                sign_out(browser).await;
            }
            sign_in(browser, &viewer).await;
            assert_accessible(browser, axe, &of("audit-viewer")).await;
            sign_out(browser).await;
            sign_in(browser, &protected.admin).await;
            browser.wait_for_text("Verified").await;
            assert_accessible(browser, axe, &of("audit")).await;
            browser.visit(JOIN_TOKENS).await;
            assert_accessible(browser, axe, &of("join-tokens")).await;
            browser.click("Create a join token…").await;
            assert_accessible(browser, axe, &of("create-join-token")).await;
            browser.click("Create").await;
            browser.wait_for_text("It is shown this once.").await;
            assert_accessible(browser, axe, &of("join-token-secret")).await;
            browser.click("Done").await;
            browser.click("Revoke…").await;
            assert_accessible(browser, axe, &of("revoke-join-token")).await;
            browser.click("Revoke the join token").await;
            eventually("it is revoked", async || {
                let left = client.list_node_tokens().await.expect("the tokens").node_tokens.len();
                if left == 1 { Ok(()) } else { Err(format!("{left} are left")) }
            })
            .await;
        }
        // Without a pointer: to Access, along its tabs, and into a dialog and back.
        browser.visit("/jobs").await;
        browser.press("ga").await;
        browser.wait_for("Access is open", "location.pathname === '/access'").await;
        browser.settled().await;
        for (word, path) in
            [("Secrets", SECRETS), ("Join tokens", JOIN_TOKENS), ("Audit log", AUDIT)]
        {
            let link = format!("//nav[@aria-label='Access']//a[normalize-space()='{word}']");
            let link = browser.client.find(Locator::XPath(&link)).await.expect("a tab");
            link.send_keys("\u{e007}").await.expect("press Enter");
            browser.wait_for(word, &format!("location.pathname === '{path}'")).await;
            browser.settled().await;
        }
        browser.assert_no_fault("access by keys").await;
    })
    .await;
}
