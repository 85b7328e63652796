//! Two orchestrators in containers on a database of the host: `deploy/compose.pair.yaml`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use api_client::Client;
use api_types::JobId;
use api_types::execution::ComputeState;
use postgres_server::TestDatabase;
use serde_json::json;
use task_image::{docker, image};
use testbed::harness::{batch, eventually};
use tokio::net::{TcpListener, UnixStream};

use super::containers::{Containers, executions, has_compose, submit};
use super::text_of;

/// Executions of the job that has to go on running.
const COUNT: usize = 2;

/// Passes connections of the containers on to the server's socket.
async fn serve(socket: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let socket = socket.clone();
            tokio::spawn(async move {
                let mut server = UnixStream::connect(socket).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    address
}

/// The job runs, and the page of an orchestrator is there.
async fn runs(cluster: &Containers, client: &Client, url: &str, job: JobId) {
    let what = format!("job {} runs, by {url}", job.short());
    eventually(&what, async || {
        let listed = client.job_executions(job, &api_client::ExecutionsQuery::default()).await;
        let listed = listed.map_err(|error| error.to_string())?.executions;
        let running = |state| state == ComputeState::BidAccepted;
        let count = listed.iter().filter(|it| running(it.compute_state.state_type)).count();
        if count == COUNT { Ok(()) } else { Err(format!("{listed:?}")) }
    })
    .await;
    let ca = reqwest::Certificate::from_pem(cluster.file("ca.crt").as_bytes()).expect("the CA");
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([ca]).build().expect("good");
    let page = http.get(format!("{url}/")).send().await.expect("an answer");
    assert!(page.status().is_success(), "{page:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long"]
async fn stopping_any_container_leaves_jobs_running_and_the_pages_working() {
    if !has_compose() {
        return;
    }
    let engine = match docker::connect().await {
        Ok(engine) => engine,
        Err(missing) => {
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            return eprintln!("skipped: {missing}");
        }
    };
    let Some(database) = TestDatabase::new() else { return };
    let address = serve(database.socket_directory().join(".s.PGSQL.5432")).await;
    let name = database.url.rsplit("dbname=").next().expect("the name of the database");
    let url = format!("postgres://jobs@host.docker.internal:{}/{name}", address.port());
    let task = image::ensure(&engine).await.expect("the task image");
    let mut cluster = Containers::pair(&url);
    let (first, second) = (cluster.client(), cluster.second_client());
    let mut job = batch(&task, &["sleep", "6000"]);
    job["Type"] = json!("service");
    job["Count"] = json!(COUNT);
    let job = submit(&first, &job).await;
    runs(&cluster, &first, &cluster.url(), job).await;
    runs(&cluster, &second, &cluster.second_url(), job).await;

    // The first one leads. Once it is back, it follows, and the second one leads.
    for stopped in ["orchestrator", "orchestrator-b", "agent-1", "agent-2", "agent-3"] {
        let done = cluster.run(&["stop", stopped]);
        assert!(done.status.success(), "{}", text_of(&done));
        match stopped {
            "orchestrator" => runs(&cluster, &second, &cluster.second_url(), job).await,
            _ => runs(&cluster, &first, &cluster.url(), job).await,
        }
        let done = cluster.run(&["start", stopped]);
        assert!(done.status.success(), "{}", text_of(&done));
        runs(&cluster, &first, &cluster.url(), job).await;
        runs(&cluster, &second, &cluster.second_url(), job).await;
    }
    assert!(executions(&first, job).await.len() >= COUNT);
    let down = cluster.run(&["down"]);
    cluster.ended = true;
    assert!(down.status.success(), "{}", text_of(&down));
    assert_eq!(cluster.leftovers(), "", "{}", text_of(&down));
}
