//! Who may do what: every operation, with every role, at home and elsewhere.

mod requests;

use std::collections::BTreeMap;

use orchestrator::settings::Auth;
use peers::issuer::Issuer;
use reqwest::Method;
use serde_json::{Value, json};

use self::requests::{of_cluster, of_graphs, of_namespace, of_nodes, of_process, of_tokens};
use crate::groups::{HOME_GROUP, of_groups};
use crate::node::FakeNode;
use crate::oidc;
use crate::roles::OLD_GROUP;
use crate::schedules;
use crate::server::{Answer, JOBS, Server, answer, job_with, text};

const TOKENS: &str = "/api/v1/orchestrator/tokens";
const NAMESPACES: &str = "/api/v1/orchestrator/namespaces";

/// A secret of the namespace `home`.
const HOME_SECRET: &str = "/api/v1/orchestrator/secrets/db?namespace=home";

/// Credentials of the namespace `home`.
const HOME_CREDENTIAL: &str = "/api/v1/orchestrator/credentials/hub?namespace=home";

/// Method, path and body.
pub(crate) type Request = (Method, String, Option<Value>);

/// An unknown node.
const NO_NODE: &str = "/api/v1/orchestrator/nodes/n-00000000-0000-4000-8000-000000000000";

/// An orchestrator that asks for credentials, with namespaces `home` and `away`.
pub(crate) struct Guarded {
    pub(crate) server: Server,
    pub(crate) admin: String,
    /// Of `home`, and one that has ended.
    pub(crate) job: String,
    pub(crate) ended: String,
    pub(crate) execution: String,
    pub(crate) node: String,
    /// The trusted ID-token issuer.
    pub(crate) issuer: Issuer,
}

/// The part of a token that is no secret.
pub(crate) fn id_of(token: &str) -> &str {
    token.split('_').nth(1).expect("an ID")
}

/// The whole secret of a token, which may contain the separator.
pub(crate) fn secret_of(token: &str) -> &str {
    token.splitn(3, '_').nth(2).expect("a secret")
}

// === impl Guarded ===

fn credential() -> Value {
    let login = json!({ "Username": "u", "Password": "hidden" });
    json!({ "Type": "git", "Hosts": ["git.example.com"], "Login": login })
}

impl Guarded {
    /// What is in the namespaces was submitted before credentials were asked for.
    pub(crate) async fn start() -> Self {
        Self::start_with(true).await
    }

    /// Over TLS unless it is insecure.
    pub(crate) async fn start_with(insecure: bool) -> Self {
        let mut server = Server::start().await;
        let node = FakeNode::join(&server).await;
        let ended = server.submit(job_with(json!({ "Namespace": "home", "Name": "ended" }))).await;
        let executions = format!("{JOBS}/{ended}/executions");
        let execution = text(&server.get(&executions).await.ok()["Executions"][0]["ID"]);
        node.complete(&server, &execution, json!({ "Type": "", "Params": {} })).await;
        let waiting = json!({
            "Namespace": "home", "Name": "waits", "Labels": { "kept": "secret" },
            "Constraints": [{ "Key": "zone", "Operator": "=", "Values": ["nowhere"] }],
        });
        let job = server.submit(job_with(waiting)).await;
        let issuer = Issuer::start().await;
        server
            .restart_with(|settings| {
                settings.auth = Auth::Required;
                settings.insecure = insecure;
                settings.oidc = oidc::settings_of(&issuer);
            })
            .await;
        let admin = oidc::admin_of(&server);
        let node = node.id;
        let guarded = Self { server, admin, job, ended, execution, node, issuer };
        for name in ["home", "away"] {
            let path = format!("{NAMESPACES}/{name}");
            guarded.ask(Method::PUT, &path, &guarded.admin, Some(&json!({}))).await.ok();
        }
        let body = json!({ "Value": "hidden" });
        guarded.ask(Method::PUT, HOME_SECRET, &guarded.admin, Some(&body)).await.ok();
        guarded.ask(Method::PUT, HOME_CREDENTIAL, &guarded.admin, Some(&credential())).await.ok();
        let (method, path, body) = schedules::put_request();
        guarded.ask(method, &path, &guarded.admin, body.as_ref()).await.ok();
        let limit = json!({ "Limit": 1 });
        guarded.ask(Method::PUT, HOME_GROUP, &guarded.admin, Some(&limit)).await.ok();
        guarded
    }

    pub(crate) async fn token(&self, role: &str, namespaces: &[&str]) -> String {
        let body = json!({ "Name": role, "Role": role, "Namespaces": namespaces });
        let created = self.ask(Method::POST, TOKENS, &self.admin, Some(&body)).await;
        text(&created.ok()["Secret"])
    }

    /// An empty token stands for none.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> Answer {
        answer(self.request(method, path, token, body)).await
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> reqwest::RequestBuilder {
        let mut request = self.server.request(method, path);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        match body {
            Some(body) => request.json(body),
            None => request,
        }
    }

    /// What a caller signs in with.
    fn presented<'a>(&'a self, token: &'a str) -> &'a str {
        if token.is_empty() { &self.admin } else { token }
    }

    /// How each operation of the document is asked for.
    pub(crate) fn requests(&self, token: &str) -> BTreeMap<&'static str, Request> {
        let job = format!("{JOBS}/{}", self.job);
        let execution = format!("/api/v1/orchestrator/executions/{}", self.execution);
        let node = format!("/api/v1/orchestrator/nodes/{}", self.node);
        let submission = json!({ "Job": job_with(json!({ "Namespace": "home" })) });
        let (get, put, post, delete) = (Method::GET, Method::PUT, Method::POST, Method::DELETE);
        let api = |path: &str| format!("/api/v1/{path}");
        let cluster = |path: &str| format!("/api/v1/orchestrator/{path}");
        let mut requests = BTreeMap::from([
            ("listJobs", (get.clone(), format!("{JOBS}?namespace=home"), None)),
            ("createJob", (put.clone(), JOBS.to_owned(), Some(submission.clone()))),
            ("createJobByPost", (post.clone(), JOBS.to_owned(), Some(submission))),
            ("describeJob", (get.clone(), job.clone(), None)),
            ("stopJob", (delete.clone(), job.clone(), None)),
            ("explainJob", (get.clone(), format!("{job}/explain"), None)),
            (
                "rerunJob",
                (
                    post.clone(),
                    cluster("jobs/j-00000000-0000-4000-8000-000000000000/rerun"),
                    Some(json!({})),
                ),
            ),
            ("listHistory", (get.clone(), format!("{job}/history"), None)),
            ("listExecutions", (get.clone(), format!("{job}/executions"), None)),
            ("describeSlots", (get.clone(), format!("{job}/slots"), None)),
            ("listResults", (get.clone(), format!("{job}/results"), None)),
            ("readLogs", (get.clone(), format!("{job}/logs"), None)),
            ("listLiveExecutions", (get.clone(), cluster("executions"), None)),
            ("describeExecution", (get.clone(), execution.clone(), None)),
            ("listUsage", (get.clone(), cluster("usage"), None)),
            ("describeExecutionUsage", (get.clone(), format!("{execution}/usage"), None)),
            ("describeJobUsage", (get.clone(), format!("{job}/usage"), None)),
            ("readExecutionResults", (get.clone(), format!("{execution}/results"), None)),
            ("streamEvents", (get.clone(), cluster("events?namespace=home"), None)),
            ("streamChanges", (get.clone(), cluster("changes"), None)),
            ("search", (get.clone(), cluster("search?text=a"), None)),
            ("listKeys", (get.clone(), cluster("keys"), None)),
            ("rotateKey", (post.clone(), cluster("keys"), Some(json!({ "Purpose": "secrets" })))),
            ("listAudit", (get.clone(), cluster("audit"), None)),
            ("listNamespaces", (get.clone(), NAMESPACES.to_owned(), None)),
            ("describeNamespace", (get.clone(), format!("{NAMESPACES}/home"), None)),
            ("putNamespace", (put, format!("{NAMESPACES}/home"), Some(json!({})))),
            ("deleteNamespace", (delete.clone(), format!("{NAMESPACES}/unknown"), None)),
            (
                "signIn",
                (post, api("auth/session"), Some(json!({ "Token": self.presented(token) }))),
            ),
            ("signOut", (delete, api("auth/session"), None)),
            ("describeIdentity", (get.clone(), api("auth/identity"), None)),
            ("describeOwnNode", (get.clone(), api("agent/node"), None)),
            ("describeApi", (get.clone(), api("openapi.json"), None)),
            (OLD_GROUP, (get, api("requester/list"), None)),
        ]);
        requests.extend(of_nodes(&node));
        requests.extend(of_graphs());
        requests.extend(of_cluster());
        requests.extend(of_namespace());
        requests.extend(of_groups());
        requests.extend(schedules::requests());
        requests.extend(of_process());
        requests.extend(of_tokens());
        requests
    }
}

/// What is asked about a namespace, whose name follows.
const OF_A_NAMESPACE: [&str; 12] = [
    "jobs?namespace=",
    "jobs?view=summary&namespace=",
    "events?namespace=",
    "secrets?namespace=",
    "secrets/db?namespace=",
    "credentials?namespace=",
    "credentials/hub?namespace=",
    "groups?namespace=",
    "groups/db?namespace=",
    "schedules?namespace=",
    "schedules/nightly?namespace=",
    "schedules/nightly/runs?namespace=",
];

/// Everything that a caller from elsewhere can ask about a namespace is answered as if it were
/// empty, and as if what is in it did not exist.
#[tokio::test]
async fn nobody_from_elsewhere_can_tell_what_a_namespace_has() {
    let busy = Guarded::start().await;
    let outsider = busy.token("owner", &["away"]).await;
    let absent = "00000000-0000-4000-8000-000000000000";
    let twin = |id: &str| format!("{}-{absent}", &id[..1]);
    // Each is asked of what exists, then of what does not; the answers differ in nothing but the
    // name that was asked for, and the ID of the request.
    let (job, execution) = (&busy.job, &busy.execution);
    let mut pairs = Vec::new();
    for rest in ["", "/explain", "/history", "/executions", "/results", "/logs", "?wait=1s"] {
        pairs.push((
            Method::GET,
            format!("{JOBS}/{job}{rest}"),
            format!("{JOBS}/{}{rest}", twin(job)),
        ));
    }
    let short = |id: &str| id[..10].to_owned();
    pairs.push((
        Method::GET,
        format!("{JOBS}/{}", short(job)),
        format!("{JOBS}/{}", short(&twin(job))),
    ));
    pairs.push((Method::DELETE, format!("{JOBS}/{job}"), format!("{JOBS}/{}", twin(job))));
    for rest in ["", "/results"] {
        let path = |id: &str| format!("/api/v1/orchestrator/executions/{id}{rest}");
        pairs.push((Method::GET, path(execution), path(&twin(execution))));
        pairs.push((Method::GET, path(&short(execution)), path(&short(&twin(execution)))));
    }
    for path in OF_A_NAMESPACE {
        let path = |name: &str| format!("/api/v1/orchestrator/{path}{name}");
        pairs.push((Method::GET, path("home"), path("none")));
    }
    pairs.push((Method::GET, format!("{NAMESPACES}/home"), format!("{NAMESPACES}/none")));
    for (method, existing, missing) in pairs {
        let seen = busy.ask(method.clone(), &existing, &outsider, None).await;
        let expected = busy.ask(method, &missing, &outsider, None).await;
        assert_eq!(seen.status, expected.status, "{existing}");
        let neutral = |answer: &Answer, path: &str| {
            let name = path.rsplit(['/', '=']).find(|part| {
                part.starts_with("j-") || part.starts_with("e-") || ["home", "none"].contains(part)
            });
            let id = answer.header("x-request-id").to_owned();
            let name = name.map(|name| name.split('?').next().unwrap_or(name));
            let name = name.or_else(|| path.split('/').find(|part| part.len() > 36)).unwrap_or("-");
            answer.text.replace(name, "NAME").replace(&id, "REQUEST")
        };
        assert_eq!(neutral(&seen, &existing), neutral(&expected, &missing), "{existing}");
        assert_eq!(seen.status.as_u16(), 404, "{existing}: {}", seen.text);
    }

    // Lists over all namespaces show the caller's alone.
    for path in
        ["jobs?namespace=*", "jobs?namespace=*&view=summary", "executions", "jobs?namespace=away"]
    {
        let path = format!("/api/v1/orchestrator/{path}");
        let list = busy.ask(Method::GET, &path, &outsider, None).await;
        for hidden in [job.as_str(), busy.ended.as_str(), execution, "waits", "home", "secret"] {
            assert!(!list.ok().to_string().contains(hidden), "{path}: {}", list.text);
        }
    }
    let names = busy.ask(Method::GET, NAMESPACES, &outsider, None).await;
    assert!(!names.ok().to_string().contains("home"), "{}", names.text);

    // A key of another namespace is no key of one's own, and a job is not submitted there.
    let body = json!({ "Job": job_with(json!({ "Namespace": "home" })) });
    let refused = busy.ask(Method::PUT, JOBS, &outsider, Some(&body)).await;
    refused.refused(404, "NamespaceNotFound");
    assert_eq!(text(&refused.body["Hint"]), "use one of your namespaces: away");
}

#[tokio::test]
async fn a_viewer_sees_what_runs_and_not_what_it_is_given() {
    let guarded = Guarded::start().await;
    let job = json!({
        "Type": "batch", "Namespace": "home", "Name": "shown", "Meta": { "m": "hidden-meta" },
        "Labels": { "team": "shown-label" },
        "Constraints": [{ "Key": "zone", "Operator": "=", "Values": ["hidden-zone"] }],
        "Tasks": [{
            "Name": "main",
            "Engine": { "Type": "docker", "Params": {
                "Image": "shown-image", "Parameters": ["hidden-argument"],
            } },
            "Env": { "KEY": "hidden-value" }, "Meta": { "m": "hidden-task-meta" },
            "InputSources": [{
                "Source": { "Type": "urlDownload", "Params": { "URL": "http://hidden-host/x" } },
                "Target": "/hidden-target",
            }],
            "Publisher": { "Type": "s3", "Params": { "Bucket": "hidden-bucket", "Key": "k" } },
            "ResultPaths": [{ "Name": "out", "Path": "/hidden-path" }],
            "Network": { "Type": "Full" },
        }],
    });
    let body = json!({ "Job": job });
    let created = guarded.ask(Method::PUT, JOBS, &guarded.admin, Some(&body)).await;
    let path = format!("{JOBS}/{}", text(&created.ok()["JobID"]));
    let viewer = guarded.token("viewer", &["home"]).await;
    let submitter = guarded.token("submitter", &["home"]).await;
    let operator = guarded.token("operator", &[]).await;
    for path in [path.clone(), format!("{JOBS}?namespace=home"), format!("{path}/explain")] {
        for token in [&viewer, &operator] {
            let seen = guarded.ask(Method::GET, &path, token, None).await;
            assert!(!seen.ok().to_string().contains("hidden"), "{path}: {}", seen.text);
        }
    }
    let explain = format!("{JOBS}/{}/explain", guarded.job);
    let seen = guarded.ask(Method::GET, &explain, &viewer, None).await;
    assert_eq!(seen.ok()["Groups"][0]["Key"], "zone");
    assert!(!seen.text.contains("nowhere"), "{}", seen.text);
    let whole = guarded.ask(Method::GET, &explain, &submitter, None).await;
    assert_eq!(whole.ok()["Groups"][0]["Wanted"], "zone=nowhere");

    let seen = guarded.ask(Method::GET, &path, &viewer, None).await;
    for shown in ["shown-image", "shown-label", "urldownload", "s3", "Full"] {
        assert!(seen.text.contains(shown), "{shown}: {}", seen.text);
    }
    let whole = guarded.ask(Method::GET, &path, &submitter, None).await;
    for part in ["hidden-value", "hidden-argument", "hidden-bucket"] {
        assert!(whole.text.contains(part), "{part}: {}", whole.text);
    }

    let execution = format!("/api/v1/orchestrator/executions/{}", guarded.execution);
    let of_job = format!("{JOBS}/{}/executions", guarded.ended);
    for path in [execution, of_job] {
        let seen = guarded.ask(Method::GET, &path, &viewer, None).await;
        assert!(!seen.ok().to_string().contains("hello"), "{}", seen.text);
        let whole = guarded.ask(Method::GET, &path, &submitter, None).await;
        assert!(whole.ok().to_string().contains("hello"), "{}", whole.text);
    }
}
