//! The pages of the web UI, and what a browser may do with the API.

use reqwest::{Method, StatusCode};

use crate::server::{Answer, JOBS, Server, answer, job_path, plain_job};

const HTML: &str = "text/html,application/xhtml+xml";

async fn opened(server: &Server, path: &str) -> Answer {
    answer(server.request(Method::GET, path).header("Accept", HTML)).await
}

#[tokio::test]
async fn pages_are_served_at_every_path_that_is_no_operation() {
    let server = Server::start().await;
    let first = server.get("/").await;
    assert_eq!(first.status, StatusCode::OK);
    assert_eq!(first.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(first.header("cache-control"), "no-cache");
    assert!(first.header("content-security-policy").contains("require-trusted-types-for"));
    assert!(first.header("x-request-id").len() == 36);
    // Each names the modules that it needs first, and is the same otherwise.
    let rest = |page: &str| {
        let lines = page.lines().filter(|line| !line.contains("rel=\"modulepreload\""));
        lines.collect::<Vec<_>>().join("\n")
    };
    for path in ["/jobs/j-12ab34cd", "/nodes?labels=zone%3Da", "/submit"] {
        let page = opened(&server, path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert_eq!(rest(&page.text), rest(&first.text), "{path}");
        assert_ne!(page.header("etag"), first.header("etag"), "{path}");
        server.get(path).await.refused(404, "PathNotFound");
    }
    for path in ["/api/v1/nowhere", "/api/", "/ui/nowhere.js", "/livez/x", "/metrics/"] {
        opened(&server, path).await.refused(404, "PathNotFound");
    }
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let request = server.request(method, "/").header("Accept", HTML);
        answer(request).await.refused(404, "PathNotFound");
    }
    let known = server.request(Method::GET, "/").header("If-None-Match", first.header("etag"));
    assert_eq!(answer(known).await.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn the_page_loads_its_files_from_where_caches_keep_them() {
    let server = Server::start().await;
    let page = server.get("/").await.text;
    let files: Vec<&str> =
        page.split('"').filter(|text| text.starts_with("/ui/") && text.contains('.')).collect();
    assert!(!files.is_empty(), "{page}");
    for path in files {
        let file = server.get(path).await;
        assert_eq!(file.status, StatusCode::OK, "{path}");
        assert_eq!(file.header("cache-control"), "public, max-age=31536000, immutable");
        let head = answer(server.request(Method::HEAD, path)).await;
        assert_eq!(head.header("content-length"), file.text.len().to_string(), "{path}");
        assert_eq!(head.text, "");
        let gzip = server.request(Method::GET, path).header("Accept-Encoding", "gzip");
        let gzip = gzip.send().await.expect("an answer");
        assert_eq!(gzip.headers()["vary"], "Accept-Encoding");
    }
}

#[tokio::test]
async fn without_the_setting_there_are_no_pages() {
    use orchestrator::Settings;
    let server = Server::start_with(|settings| Settings { ui: false, ..settings }).await;
    for path in ["/", "/jobs", "/ui/index.html"] {
        opened(&server, path).await.refused(404, "PathNotFound");
    }
}

#[tokio::test]
async fn an_answer_of_the_api_is_never_a_document() {
    let server = Server::start().await;
    let job = server.submit(plain_job()).await;
    let logs = format!("{}/logs", job_path(&job));
    let missing = job_path("j-00000000-0000-4000-8000-000000000000");
    let events = "/api/v1/orchestrator/events";
    for path in [JOBS, &job_path(&job), &logs, &missing, events, "/livez", "/metrics", "/nowhere"] {
        let request = server.request(Method::GET, path).header("Accept", "*/*");
        // The stream of events stays open.
        let response = request.send().await.expect("an answer");
        let field = |name: &str| response.headers()[name].to_str().expect("ASCII").to_owned();
        assert_eq!(field("content-security-policy"), "sandbox; default-src 'none'", "{path}");
        assert_eq!(field("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(field("cross-origin-resource-policy"), "same-origin", "{path}");
        assert_eq!(field("referrer-policy"), "no-referrer", "{path}");
        let shared = response.headers().keys().any(|name| name.as_str().starts_with("access-"));
        assert!(!shared, "{path}: {:?}", response.headers());
    }
}

#[tokio::test]
async fn requests_of_foreign_pages_and_for_other_hosts_change_nothing() {
    use orchestrator::Settings;
    let allowed =
        |settings| Settings { allowed_hosts: vec!["jobs.example".to_owned()], ..settings };
    let server = Server::start_with(allowed).await;
    let job = serde_json::json!({ "Job": plain_job() });
    let submit = |name: &'static str, value: &str| {
        answer(server.request(Method::PUT, JOBS).json(&job).header(name, value))
    };
    submit("Host", "evil.example").await.refused(421, "MisdirectedRequest").says("evil.example");
    submit("Origin", "http://evil.example").await.refused(403, "Forbidden").says("evil.example");
    submit("Origin", "null").await.refused(403, "Forbidden");
    submit("Sec-Fetch-Site", "cross-site").await.refused(403, "Forbidden");
    submit("Sec-Fetch-Site", "same-site").await.refused(403, "Forbidden");
    submit("X-Forwarded-For", "192.0.2.1").await.refused(403, "Forbidden").says("proxy");
    submit("Via", "1.1 proxy").await.refused(403, "Forbidden");
    submit("Forwarded", "for=192.0.2.1").await.refused(403, "Forbidden");
    // A form without a body, and an image.
    for (method, path) in [(Method::POST, JOBS), (Method::DELETE, JOBS), (Method::GET, "/ui/x.js")]
    {
        let request = server.request(method, path).header("Sec-Fetch-Site", "cross-site");
        answer(request).await.refused(403, "Forbidden");
    }
    assert!(server.get(JOBS).await.ok()["Jobs"].as_array().expect("a list").is_empty());

    submit("Host", "jobs.example:8443").await.ok();
    submit("Sec-Fetch-Site", "same-origin").await.ok();
    submit("Origin", &format!("http://{}", server.address())).await.ok();
    let linked = server
        .request(Method::GET, "/jobs")
        .header("Accept", HTML)
        .header("Sec-Fetch-Site", "cross-site")
        .header("Sec-Fetch-Mode", "navigate")
        .header("Sec-Fetch-Dest", "document");
    assert_eq!(answer(linked).await.status, StatusCode::OK);
}
