//! Examples of join tokens and certificates.

use api_types::joining::{
    ActedOnNode, CreateNodeToken, CreatedNodeToken, EnrolRequest, ListNodeTokens, NodeCertificate,
    NodeToken, RenewRequest, RevokedNodeToken,
};
use api_types::node::LabelNodeRequest;
use std::collections::BTreeMap;

use super::records::{MOMENT, node};

const SECRET: &str = "jn1.5a1b0c9d8e7f6a5b.4xKq0yQJ8s6n1vB3mZr7tLw2cPdF5hGjAeUiOoXyNTk.\
                      9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n";
const REQUEST: &str = "-----BEGIN CERTIFICATE REQUEST-----\n…\n-----END CERTIFICATE REQUEST-----\n";

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("zone".to_owned(), "a".to_owned())])
}

fn node_token() -> NodeToken {
    NodeToken {
        id: "5a1b0c9d8e7f6a5b".to_owned(),
        name: "build-7".to_owned(),
        labels: labels(),
        admin_labels: vec!["zone".to_owned()],
        node_id: None,
        max_capacity: None,
        uses_left: 1,
        create_time: MOMENT.rfc3339_seconds(),
        expire_time: MOMENT.rfc3339_seconds(),
    }
}

pub(in crate::http) fn acted_on_node() -> ActedOnNode {
    ActedOnNode { node: node(), revoked_node_tokens: vec![node_token()] }
}

pub(in crate::http) fn label_node() -> LabelNodeRequest {
    LabelNodeRequest { labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]) }
}

pub(in crate::http) fn create_node_token() -> CreateNodeToken {
    CreateNodeToken { labels: labels(), ..CreateNodeToken::default() }
}

pub(in crate::http) fn created_node_token() -> CreatedNodeToken {
    CreatedNodeToken { secret: SECRET.to_owned(), node_token: node_token() }
}

pub(in crate::http) fn list_node_tokens() -> ListNodeTokens {
    ListNodeTokens { node_tokens: vec![node_token()] }
}

pub(in crate::http) fn revoked_node_token() -> RevokedNodeToken {
    RevokedNodeToken { node_token: node_token() }
}

pub(in crate::http) fn enrol_request() -> EnrolRequest {
    EnrolRequest { token: SECRET.to_owned(), csr: REQUEST.to_owned(), node_id: None }
}

pub(in crate::http) fn renew_request() -> RenewRequest {
    RenewRequest { csr: REQUEST.to_owned() }
}

pub(in crate::http) fn node_certificate() -> NodeCertificate {
    NodeCertificate {
        node_id: node().peer_info.id,
        certificate: CERTIFICATE.to_owned(),
        ca: CERTIFICATE.to_owned(),
        lifetime_seconds: 30 * 86_400,
    }
}
