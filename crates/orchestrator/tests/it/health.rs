//! `/livez` and `/readyz`, and a shutdown that finishes the requests in progress.

use serde_json::json;

use crate::node::FakeNode;
use crate::server::Server;

crate::covers! {
    "isLive" => the_service_is_live_and_ready;
    "isReady" => the_service_is_live_and_ready;
}

#[tokio::test]
async fn the_service_is_live_and_ready() {
    let server = Server::start().await;
    for path in ["/livez", "/readyz"] {
        assert_eq!(server.get(path).await.ok(), &json!({ "Status": "OK" }));
    }
}

#[tokio::test]
async fn a_shutdown_ends_open_streams_and_idle_connections() {
    let mut server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let mut stream = node.open(&server).await;
    assert_eq!(stream.next().await.unwrap()["Type"], "Snapshot");
    let begin = std::time::Instant::now();
    server.stop().await;
    assert!(begin.elapsed().as_secs() < 5, "it waited {:?}", begin.elapsed());
    assert_eq!(stream.next().await, None);
}
