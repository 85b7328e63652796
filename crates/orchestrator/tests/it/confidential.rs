//! What a namespace calls its own things appears in no answer to a caller of another one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::access::Guarded;
use crate::server::{JOBS, answer, job_with, list, text};

const ROOT: &str = "/api/v1/orchestrator";

/// A stream has sent everything when it is silent for so long.
const SILENCE: Duration = Duration::from_millis(300);

/// Answers that never end.
const STREAMS: [&str; 2] = ["streamEvents", "streamChanges"];

/// What the other namespace has: the words that it uses, and what stands for the parameters of paths.
struct Theirs {
    words: BTreeSet<String>,
    parameters: BTreeMap<String, String>,
}

/// A job of theirs that names everything that a job can name.
fn job() -> Value {
    job_with(json!({
        "Namespace": "zulu", "Name": "yankee", "Labels": { "xray": "whiskey" },
        "ConcurrencyGroups": ["victor"], "Count": 3, "MaxRunning": 2,
        "Meta": { "hotel": "tango" },
    }))
}

/// Everything that a namespace can have, with names that occur nowhere else.
async fn theirs(guarded: &Guarded) -> Theirs {
    let ask = async |method: Method, path: &str, body: Value| -> Value {
        let path = format!("{ROOT}/{path}");
        guarded.ask(method, &path, &guarded.admin, Some(&body)).await.ok().clone()
    };
    let put = Method::PUT;
    ask(put.clone(), "namespaces/zulu", json!({ "Quota": { "CPU": "900" } })).await;
    ask(put.clone(), "groups/victor?namespace=zulu", json!({ "Limit": 1 })).await;
    ask(put.clone(), "secrets/sierra?namespace=zulu", json!({ "Value": "romeo" })).await;
    let login = json!({ "Username": "quebec", "Password": "papa" });
    let login = json!({ "Type": "git", "Hosts": ["oscar.example"], "Login": login });
    ask(put.clone(), "credentials/november?namespace=zulu", login).await;
    let submitted = ask(put.clone(), "jobs", json!({ "Job": job() })).await;
    let job_id = text(&submitted["JobID"]);
    let schedule = json!({ "Cron": "0 0 1 1 *", "Job": job() });
    ask(put, "schedules/mike?namespace=zulu", schedule).await;
    let trigger = format!("{ROOT}/schedules/mike/trigger?namespace=zulu");
    let trigger = guarded.request(Method::POST, &trigger, &guarded.admin, None);
    answer(trigger.header("Idempotency-Key", "lima")).await.ok();
    let first = job();
    let mut second = job();
    second["DependsOn"] = json!([{ "Job": "foxtrot" }]);
    let graph = json!({ "Name": "juliett", "Jobs": { "foxtrot": first, "india": second } });
    let graph = ask(Method::POST, "jobs/graph", graph).await;
    let executions = format!("{JOBS}/{job_id}/executions");
    let executions = guarded.ask(Method::GET, &executions, &guarded.admin, None).await;
    let execution = list(&executions.ok()["Executions"]).first().map(|it| text(&it["ID"]));
    let execution = execution.expect("the group has a unit for the first job");
    let ids = [job_id, execution, text(&graph["GraphID"])];
    let names = ["job_id", "execution_id", "graph_id"].map(str::to_owned);
    let parameters = names.into_iter().zip(ids.clone()).collect();
    let words = [
        "zulu", "yankee", "xray", "whiskey", "victor", "hotel", "tango", "sierra", "romeo",
        "quebec", "papa", "oscar", "november", "mike", "lima", "foxtrot", "juliett", "india",
    ];
    Theirs { words: words.map(str::to_owned).into_iter().chain(ids).collect(), parameters }
}

// === impl Theirs ===

impl Theirs {
    /// The operation's path with their names.
    fn path(&self, path: &str, node: &str) -> String {
        let name = match path.split('/').nth(4) {
            Some("credentials") => "november",
            Some("groups") => "victor",
            Some("schedules") => "mike",
            _ => "sierra",
        };
        let fixed = [("name", name), ("namespace", "zulu"), ("node_id", node), ("rest", "jobs")];
        let fixed = fixed.map(|(parameter, value)| (parameter.to_owned(), value.to_owned()));
        let all = self.parameters.clone().into_iter().chain(fixed);
        all.fold(path.to_owned(), |path, (parameter, value)| {
            path.replace(&format!("{{{parameter}}}"), &value)
        })
    }

    /// The answer has none of their words but those of the request.
    #[track_caller]
    fn assert_absent(&self, asked: &str, answer: &str) {
        let told =
            self.words.iter().filter(|word| answer.contains(*word) && !asked.contains(*word));
        let told: Vec<_> = told.collect();
        assert!(told.is_empty(), "{asked} tells {told:?}: {answer}");
    }
}

/// What a stream sends until it is silent.
async fn read_stream(mut stream: reqwest::Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Ok(Some(chunk))) = tokio::time::timeout(SILENCE, stream.chunk()).await {
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn no_answer_to_one_namespace_names_what_another_one_has() {
    let guarded = Guarded::start().await;
    let theirs = theirs(&guarded).await;
    let document = guarded.ask(Method::GET, "/api/v1/openapi.json", &guarded.admin, None).await;
    let paths = document.ok()["paths"].as_object().expect("paths").clone();
    let (mut asked, mut streamed) = (0, 0);
    for role in ["viewer", "owner"] {
        let token = guarded.token(role, &["away"]).await;
        for (path, operations) in &paths {
            let Some(operation) = operations.get("get") else { continue };
            let is_stream = STREAMS.contains(&text(&operation["operationId"]).as_str());
            let path = theirs.path(path, &guarded.node);
            for query in ["", "?namespace=away", "?namespace=*", "?namespace=zulu"] {
                let path = format!("{path}{query}");
                let request = guarded.request(Method::GET, &path, &token, None);
                let answer = request.send().await.expect("an answer");
                let said = if is_stream && answer.status().is_success() {
                    let body = json!({ "Job": job() });
                    guarded.ask(Method::PUT, JOBS, &guarded.admin, Some(&body)).await.ok();
                    streamed += 1;
                    read_stream(answer).await
                } else {
                    answer.text().await.expect("a whole body")
                };
                theirs.assert_absent(&path, &said);
                asked += 1;
            }
        }
    }
    assert!(asked > 2 * 4 * 40 && streamed >= 4, "{asked} answers, {streamed} streams");
}

#[tokio::test]
async fn a_job_that_waits_behind_those_of_another_namespace_does_not_name_them() {
    let guarded = Guarded::start().await;
    let theirs = theirs(&guarded).await;
    let token = guarded.token("owner", &["away"]).await;
    let ask = async |method: Method, path: &str, body: Option<&Value>| -> String {
        guarded.ask(method, path, &token, body).await.text
    };
    // Everything that their first job holds, and more than is left.
    let mut large = job_with(json!({ "Namespace": "away", "Name": "ours" }));
    large["Tasks"][0]["Resources"] = json!({ "CPU": "4" });
    let mut before = job_with(json!({ "Namespace": "zulu", "Name": "yankee" }));
    before["Tasks"][0]["Resources"] = json!({ "CPU": "4" });
    let body = json!({ "Job": before });
    guarded.ask(Method::PUT, JOBS, &guarded.admin, Some(&body)).await.ok();
    let body = json!({ "Job": large });
    let submitted = guarded.ask(Method::PUT, JOBS, &token, Some(&body)).await;
    let ours = text(&submitted.ok()["JobID"]);
    for part in ["", "/explain", "/history", "/executions"] {
        let path = format!("{JOBS}/{ours}{part}");
        theirs.assert_absent(&path, &ask(Method::GET, &path, None).await);
    }
    // A submission that names what is theirs learns no more than its own words.
    for fields in [
        json!({ "DependsOn": [{ "JobID": theirs.parameters["job_id"] }] }),
        json!({ "ConcurrencyGroups": ["victor"] }),
    ] {
        let mut job = job_with(fields);
        job["Namespace"] = json!("away");
        let body = json!({ "Job": job });
        for path in [JOBS.to_owned(), format!("{JOBS}?dry_run")] {
            let said = ask(Method::PUT, &path, Some(&body)).await;
            theirs.assert_absent(&body.to_string(), &said);
        }
    }
}
