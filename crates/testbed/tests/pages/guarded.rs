//! A service that asks for tokens, and signing in to its pages.

use fantoccini::Locator;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::harness::{Cluster, ClusterSpec};

use super::browser::Browser;
use super::named;

const ENTER: &str = "\u{e007}";

/// Tokens over plain HTTP, as behind something that adds TLS: the browser need not know a CA.
pub(super) const PLAIN_WITH_TOKENS: [(&str, &str); 2] =
    [("ORCHESTRATOR_AUTH", "required"), ("ORCHESTRATOR_INSECURE", "true")];
const DATA_DIR: &str = "ORCHESTRATOR_DATA_DIR";

const JOBS: &str = "/api/v1/orchestrator/jobs";
const TOKENS: &str = "/api/v1/orchestrator/tokens";
pub(super) const NAMESPACES: &str = "/api/v1/orchestrator/namespaces";

pub(super) const HEADING: &str = "document.querySelector('main h1')?.textContent";

/// An orchestrator that asks for tokens.
pub(super) struct Guarded {
    pub(super) cluster: Cluster,
    http: reqwest::Client,
    /// The first token.
    pub(super) admin: String,
    data: TempDir,
}

// === impl Guarded ===

impl Guarded {
    pub(super) async fn start() -> Self {
        let settings = PLAIN_WITH_TOKENS.into_iter();
        let spec =
            settings.fold(ClusterSpec::new(), |spec, (name, value)| spec.setting(name, value));
        Self::with(spec).await
    }

    pub(super) async fn with(spec: ClusterSpec) -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let path = data.path().display().to_string();
        let cluster = spec.setting(DATA_DIR, &path).start_without_docker().await;
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut guarded = Self { cluster, http, admin: String::new(), data };
        guarded.read_admin();
        guarded
    }

    /// The first token is written once tokens are asked for.
    pub(super) fn read_admin(&mut self) {
        let file = self.data.path().join("admin.token");
        self.admin = std::fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    }

    /// The only place that knows how the service is reached.
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.cluster.orchestrator.base_url())
    }

    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let mut request = self.http.request(method, self.url(path)).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.expect("reach the orchestrator");
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    pub(super) async fn as_admin(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.ask(method, path, &self.admin, body).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub(super) async fn namespace(&self, name: &str) {
        self.as_admin(Method::PUT, &format!("{NAMESPACES}/{name}"), Some(json!({}))).await;
    }

    /// A new token, and its ID.
    pub(super) async fn token(
        &self,
        name: &str,
        role: &str,
        namespaces: &[&str],
    ) -> (String, String) {
        let body = json!({ "Name": name, "Role": role, "Namespaces": namespaces });
        let created = self.as_admin(Method::POST, TOKENS, Some(body)).await;
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        (text(&created["Secret"]), text(&created["Token"]["ID"]))
    }

    pub(super) async fn revoke(&self, id: &str) {
        self.as_admin(Method::DELETE, &format!("{TOKENS}/{id}"), None).await;
    }

    pub(super) async fn submit(&self, name: &str, namespace: &str) -> String {
        let mut job = named(name);
        job["Namespace"] = json!(namespace);
        let answer = self.as_admin(Method::PUT, JOBS, Some(json!({ "Job": job }))).await;
        answer["JobID"].as_str().expect("an ID").to_owned()
    }
}

pub(super) async fn asks_for_a_token(browser: &Browser) {
    browser.wait_for("the page asks for a token", &format!("{HEADING} === 'Sign in'")).await;
}

pub(super) async fn is_live(browser: &Browser) {
    let live = "document.querySelector('.live-state')?.title === 'Live'";
    browser.wait_for("the stream is open", live).await;
}

pub(super) async fn enter(browser: &Browser, token: &str) {
    let field = browser.client.find(Locator::Css("#token")).await.expect("a field for the token");
    field.send_keys(&format!("{token}{ENTER}")).await.expect("type the token");
}

pub(super) async fn sign_in(browser: &Browser, token: &str) {
    asks_for_a_token(browser).await;
    enter(browser, token).await;
    browser.wait_for("the page opens", &format!("{HEADING} && {HEADING} !== 'Sign in'")).await;
    browser.settled().await;
}

pub(super) async fn sign_out(browser: &Browser) {
    let path = "//button[normalize-space()='Sign out']";
    let button = browser.client.find(Locator::XPath(path)).await.expect("a way out");
    button.send_keys(ENTER).await.expect("press Enter");
    asks_for_a_token(browser).await;
}
