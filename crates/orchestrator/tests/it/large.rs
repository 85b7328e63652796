//! Large jobs: nothing a request asks for may delay the other connections of its worker.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::server::{JOBS, Server, job_path, task_with};

/// The processor time that the only worker may spend on one piece of work; a large job takes several
/// times as much to read and render.
const LONGEST: Duration = Duration::from_millis(150);

/// Near the 10 MB that a body may have.
const BYTES: usize = 9_500_000;

fn large_job() -> Value {
    let url = format!("data:text/plain,{}", "x".repeat(BYTES));
    let source = json!({ "Type": "inline", "Params": { "URL": url } });
    task_with(json!({ "InputSources": [{ "Source": source, "Target": "/in" }] }))
}

/// Sends a request from this thread, and waits for all of its response.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) {
    let mut stream = TcpStream::connect(address).expect("connect");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nIdempotency-Key: k\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("send the head");
    stream.write_all(body.as_bytes()).expect("send the body");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("receive");
    let begin = String::from_utf8_lossy(&answer[..answer.len().min(1000)]);
    assert!(begin.starts_with("HTTP/1.1 200"), "{method} {path}: {begin}");
}

/// The processor time that this thread has had: other tests on the same cores do not count.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.try_into().expect("it is not negative")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_job_delays_no_other_connection() {
    let server = Server::start().await;
    let id = server.submit(large_job()).await;
    let (address, job) = (server.address(), job_path(&id));
    let body = json!({ "Job": large_job() }).to_string();
    let asking = std::thread::spawn(move || {
        for path in [job.clone(), format!("{job}?wait=0"), format!("{job}?wait=50ms")] {
            ask(address, "GET", &path, "");
        }
        ask(address, "GET", &format!("{job}/logs"), "");
        ask(address, "PUT", &format!("{JOBS}?dry_run=true"), &body);
        ask(address, "PUT", JOBS, &body);
    });
    // On the worker, as every connection is.
    let longest = tokio::spawn(async move {
        let mut longest = Duration::ZERO;
        while !asking.is_finished() {
            let begin = spent();
            tokio::time::sleep(Duration::from_millis(1)).await;
            longest = longest.max(spent() - begin);
        }
        asking.join().expect("every request is answered");
        longest
    });
    let longest = longest.await.unwrap();
    assert!(longest < LONGEST, "the worker was busy for {longest:?}");
}
