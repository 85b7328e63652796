//! Inputs from IPFS, against a simulated Kubo server.

use peers::kubo::KuboServer;
use serde_json::json;

use super::*;
use crate::testing::OfKubo;

fn asked(cid: &str) -> InputSource {
    input(SourceType::Ipfs, json!({ "CID": cid }), "/in/it")
}

fn node(server: &KuboServer) -> Node {
    Node::new(|cache| server.sources(cache))
}

impl Origin for KuboServer {
    fn sources(&self, cache: &Path) -> Sources {
        let settings = self.settings();
        let ipfs = Kubo::new(&settings.ipfs.api).map(|kubo| Ipfs::new(kubo, QUICK));
        Sources { ipfs, ..Sources::new(&settings, cache.to_owned()) }
    }

    fn file(&self, bytes: &[u8]) -> InputSource {
        asked(&self.put(&[("", bytes)]))
    }

    fn missing(&self) -> (InputSource, &'static str) {
        (asked("bafyabsent"), "says: context deadline exceeded")
    }
}

#[tokio::test]
async fn the_contract_holds() {
    holds(&KuboServer::start().await).await;
}

#[tokio::test]
async fn a_directory_is_fetched_whole_and_a_path_below_it_alone() {
    let server = KuboServer::start().await;
    let cid = server.put(&[("a.txt", b"a"), ("sub/b.txt", b"b"), ("sub/deep/c.txt", b"c")]);
    let node = node(&server);
    let pairs = |found: &[(&str, &str)]| -> Vec<(String, Vec<u8>)> {
        found.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
    };
    for number in [1, 2] {
        let whole = node.fetch(number, &asked(&cid)).await.unwrap();
        let all = [("a.txt", "a"), ("sub/b.txt", "b"), ("sub/deep/c.txt", "c")];
        assert_eq!(tree(&whole.source), pairs(&all));
        let part = node.fetch(number, &asked(&format!("/ipfs/{cid}/sub"))).await.unwrap();
        assert_eq!(tree(&part.source), pairs(&[("b.txt", "b"), ("deep/c.txt", "c")]));
    }
    let file = node.fetch(3, &asked(&format!("{cid}/a.txt"))).await.unwrap();
    assert_eq!(fs::read(file.source).unwrap(), b"a");
    let message = node.refusal(4, &asked(&format!("{cid}/absent"))).await;
    assert!(message.contains("says: no link named"), "{message}");
}

#[tokio::test]
async fn a_broken_or_failed_transfer_is_retried() {
    let server = KuboServer::start().await;
    let node = node(&server);
    let asked = Origin::file(&server, &noise(5000));
    server.cut(1);
    server.fail(1);
    let mounted = node.fetch(1, &asked).await.unwrap();
    assert!(fs::read(mounted.source).unwrap() == noise(5000), "the bytes are others");
    let other = server.put(&[("", b"other")]);
    server.cut(9);
    let message = node.refusal(2, &self::asked(&other)).await;
    assert!(message.contains("broke off: ") && message.ends_with("(tried 3 times)"), "{message}");
    server.cut(0);
    server.fail(9);
    let message = node.refusal(3, &self::asked(&other)).await;
    assert!(message.contains("says: the daemon is busy (tried 3 times)"), "{message}");
}

#[test]
fn an_invalid_content_id_is_declined() {
    let settings = Settings::default();
    assert!(!Sources::new(&settings, "cache".into()).offered().contains(&SourceType::Ipfs));
    let ipfs = Ipfs::new(Kubo::new("http://127.0.0.1:5001").unwrap(), QUICK);
    for cid in ["", "/", "a b", "../x", "cid/../x", "cid//x", "cid?arg=y", "/ipfs/"] {
        let refused = ipfs.admit(&asked(cid)).unwrap_err();
        assert!(refused.contains("is not a content ID"), "{refused}");
    }
}
