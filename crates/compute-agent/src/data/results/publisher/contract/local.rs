//! Results that the agent keeps; how it serves them is tried in `tests/it/publishing.rs`.

use serde_json::json;

use super::*;

struct OnTheNode;

impl Shelf for OnTheNode {
    const KIND: PublisherType = PublisherType::Local;

    fn publishers(&self, data_dir: &DataDir) -> Publishers {
        let settings = Settings::default();
        Publishers::new(&settings, data_dir.published(), ([127, 0, 0, 1], 8080).into())
    }

    fn params(&self) -> Value {
        json!({})
    }

    async fn bytes(&self, data_dir: &DataDir, result: &PublishedResult) -> Vec<u8> {
        let url = result.params["URL"].as_str().unwrap();
        let name = url.strip_prefix("http://127.0.0.1:8080/api/v1/agent/results/").unwrap();
        fs::read(PublishedDir::new(data_dir.published(), 0).named(name).unwrap()).unwrap()
    }
}

#[tokio::test]
async fn the_contract_holds() {
    holds(&OnTheNode).await;
}

#[tokio::test]
async fn a_disk_error_is_reported() {
    let collected = Collected::new(&OnTheNode, 1);
    fs::write(collected.data_dir.published(), "a file where a directory should be").unwrap();
    let publishers = OnTheNode.publishers(&collected.data_dir);
    let failure = collected.publish(&publishers).await.unwrap_err();
    let message = "publisher 'local': the node's disk cannot take it: ";
    assert!(failure.message.starts_with(message), "{}", failure.message);
}
