//! Results on IPFS, against a server that plays Kubo.

use peers::kubo::KuboServer;
use serde_json::json;

use super::*;
use crate::testing::OfKubo;

impl Shelf for KuboServer {
    const KIND: PublisherType = PublisherType::Ipfs;

    fn publishers(&self, data_dir: &DataDir) -> Publishers {
        let settings = self.settings();
        let publishers = Publishers::new(&settings, data_dir.published(), settings.listen);
        Publishers { retry: QUICK, ..publishers }
    }

    fn params(&self) -> Value {
        json!({})
    }

    async fn bytes(&self, _: &DataDir, result: &PublishedResult) -> Vec<u8> {
        self.file(result.params["CID"].as_str().unwrap())
    }
}

#[tokio::test]
async fn the_contract_holds() {
    holds(&KuboServer::start().await).await;
}

#[tokio::test]
async fn a_failure_is_retried_and_then_reported() {
    let server = KuboServer::start().await;
    let collected = Collected::new(&server, 1000);
    let publishers = server.publishers(&collected.data_dir);
    server.fail(2);
    collected.publish(&publishers).await.unwrap();
    server.fail(9);
    let failure = collected.publish(&publishers).await.unwrap_err();
    let message = "says: the daemon is busy (tried 3 times)";
    assert!(failure.message.starts_with("publisher 'ipfs': the IPFS node at "), "{failure:?}");
    assert!(failure.message.ends_with(message), "{failure:?}");
}
