//! Which certificates are valid, and what the operator's words change.

use control_plane::records::RecordRow;
use pki::{Authority, NodeKey, NodeRequest};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use uuid::Uuid;

use super::*;

const HOUR: Duration = Duration::from_hours(1);
const NOW: Timestamp = Timestamp(1_800_000_000_000_000_000);

fn identity(expire_time: Timestamp) -> StoredIdentity {
    StoredIdentity {
        admin_labels: None,
        name: String::new(),
        token_id: "t".to_owned(),
        labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        max_capacity: Some(Capacity { cpu: 2.0, memory: 5, disk: 0, gpu: 0 }),
        join_time: Timestamp(0),
        expire_time,
        ca: None,
    }
}

fn publish(records: &Published, write: RecordWrite) {
    records.update(&[RecordRow { key: write.key, version: 1, value: write.value }]);
}

fn node(number: u128) -> NodeId {
    NodeId::from_uuid(Uuid::from_u128(number))
}

#[test]
fn a_key_acts_for_its_node_until_it_is_revoked_or_expires() {
    let authority = Authority::make().unwrap();
    let request = NodeRequest::read(&NodeKey::make().unwrap().request().unwrap()).unwrap();
    let pem = authority.sign_node(&request, node(1), NOW + HOUR).unwrap();
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let records = Published::default();
    let renewable = Renewable { time: HOUR * 2, remembered: &|_| false };
    let at = |records: &Published, now, renews| {
        verify(records, &certificate, now, &renewable, renews).map(|found| found.peer.node)
    };
    assert_eq!(at(&records, NOW, false), Err(NodeRefusal::Revoked(node(1))));
    let key = StoredIdentity::key(node(1), request.key());
    publish(&records, identity(NOW + HOUR).write(key, Expected::Nothing));
    assert_eq!(at(&records, NOW, false), Ok(node(1)));
    let expired = NOW + HOUR * 2;
    assert_eq!(at(&records, expired, false), Err(NodeRefusal::Expired(node(1))));
    assert_eq!(at(&records, expired, true), Ok(node(1)));
    assert_eq!(at(&records, NOW + HOUR * 4, true), Err(NodeRefusal::TooOld(node(1))));

    assert!(outdated(&records, NOW + HOUR * 3, &renewable).is_empty());
    assert_eq!(outdated(&records, NOW + HOUR * 4, &renewable).len(), 1);
    let for_ever = Renewable { time: Duration::MAX, ..renewable };
    assert!(outdated(&records, Timestamp(i64::MAX), &for_ever).is_empty());
    // A clock that is a year ahead costs no node its identity that the scheduler still remembers.
    let remembered = Renewable { time: HOUR * 2, remembered: &|id| id == node(1) };
    let ahead = NOW + HOUR * 24 * 365;
    assert!(outdated(&records, ahead, &remembered).is_empty());
    let found = verify(&records, &certificate, ahead, &remembered, true).unwrap();
    assert_eq!(found.peer.node, node(1));

    assert!(revocation(&records, node(2)).is_empty());
    for write in revocation(&records, node(1)) {
        publish(&records, write);
    }
    assert_eq!(at(&records, NOW, false), Err(NodeRefusal::Revoked(node(1))));

    let own = authority.issue_server(node(1), &[]).unwrap().certificate;
    let own = CertificateDer::from_pem_slice(own.as_bytes()).unwrap();
    let refused = verify(&records, &own, NOW, &renewable, false).unwrap_err();
    assert_eq!(refused, NodeRefusal::NotANode);
}

#[test]
fn the_operators_labels_win_and_the_capacity_is_bounded() {
    let mut request = crate::http::example_session();
    request.labels.insert("zone".to_owned(), "prod".to_owned());
    request.labels.insert("own".to_owned(), "kept".to_owned());
    let offered = Capacity { cpu: 100.0, memory: 4, disk: 9, gpu: 3 };
    request.compute_node_info.max_capacity = offered;
    request.compute_node_info.max_job_requirements = offered;
    identity(NOW).amend(&mut request);
    assert_eq!((request.labels["zone"].as_str(), request.labels["own"].as_str()), ("a", "kept"));
    let bounded = Capacity { cpu: 2.0, ..offered };
    assert_eq!(request.compute_node_info.max_capacity, bounded);
    assert_eq!(request.compute_node_info.max_job_requirements, bounded);
}
