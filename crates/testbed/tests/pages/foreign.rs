//! A page of another origin, open in the same browser, changes nothing of the service and reads
//! nothing of it.

use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::browser::in_browser;
use super::named;

/// Serves one page, whatever is asked for, and returns its port.
async fn foreign_page() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let page = "<!doctype html><title>elsewhere</title><main><h1>Elsewhere</h1></main>";
            let response = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{page}",
                page.len()
            );
            let _ = stream.write_all(response.as_bytes()).await;
        }
    });
    port
}

/// What a page can try. Each try ends with "refused", or with what it got.
const TRIES: &str = r#"
    const [service, job, done] = arguments;
    const api = `${service}/api/v1/orchestrator`;
    const body = JSON.stringify({ Job: job });
    const json = { "Content-Type": "application/json" };
    const text = { "Content-Type": "text/plain" };
    const request = (path, options) => fetch(api + path, options).then(
        (response) => response.type === "opaque" ? "refused" : `status ${response.status}`,
        () => "refused");
    const loads = (element, attribute) => new Promise((resolve) => {
        element.onload = () => resolve("loaded");
        element.onerror = () => resolve("refused");
        element[attribute] = `${api}/jobs`;
        document.body.append(element);
    });
    const listens = () => new Promise((resolve) => {
        const source = new EventSource(`${api}/events`);
        source.onopen = () => resolve("opened");
        source.onmessage = (event) => resolve(`got ${event.data}`);
        source.onerror = () => { source.close(); resolve("refused"); };
    });
    const posts = () => new Promise((resolve) => {
        const frame = Object.assign(document.createElement("iframe"), { name: "target" });
        const form = Object.assign(document.createElement("form"), {
            method: "post", action: `${api}/jobs`, target: "target", enctype: "text/plain",
        });
        const field = Object.assign(document.createElement("input"), { name: body, value: "" });
        form.append(field);
        document.body.append(frame, form);
        frame.onload = () => resolve("refused");
        form.submit();
    });
    Promise.all([
        request("/jobs"),
        request("/jobs", { mode: "no-cors" }),
        request("/jobs", { method: "PUT", headers: json, body }),
        request("/jobs", { method: "POST", headers: text, body, mode: "no-cors" }),
        request("/jobs", { method: "POST", mode: "no-cors" }),
        request("/jobs", { method: "PUT", credentials: "include", headers: json, body }),
        loads(document.createElement("script"), "src"),
        loads(document.createElement("img"), "src"),
        listens(),
        posts(),
    ]).then(done, (error) => done([String(error)]));
"#;

async fn jobs_of(cluster: &Cluster) -> Value {
    let url = format!("{}/api/v1/orchestrator/jobs", cluster.orchestrator.base_url());
    let response = reqwest::get(&url).await.expect("an answer");
    response.json().await.expect("JSON")
}

#[tokio::test]
async fn a_foreign_origin_changes_and_reads_nothing() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    cluster.submit(&named("secret")).await;
    let before = jobs_of(&cluster).await["Jobs"].as_array().expect("jobs").len();
    let port = foreign_page().await;
    let service = cluster.orchestrator.base_url().to_owned();
    in_browser(&cluster, async |browser| {
        // Another site, and another origin of the same site.
        for host in ["localhost", "127.0.0.1"] {
            let page = format!("http://{host}:{port}/");
            browser.client.goto(&page).await.expect("open the page");
            let arguments = vec![json!(service), named("forged")];
            let got = browser.client.execute_async(TRIES, arguments).await.expect("the tries");
            let got = got.as_array().expect("what each got").clone();
            assert!(got.iter().all(|outcome| outcome == "refused"), "{page}: {got:?}");
            assert_eq!(got.len(), 10);
        }
    })
    .await;
    let after = jobs_of(&cluster).await;
    assert_eq!(after["Jobs"].as_array().expect("jobs").len(), before, "{after}");
}
