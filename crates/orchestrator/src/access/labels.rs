//! Who gave a label to a node.
//!
//! `Nodes` of a namespace compares only labels that an admin gave: an operator manages nodes, and can
//! submit to no namespace, so it must not decide either which nodes are handed a namespace's secrets.
//! Records of earlier releases do not say who gave a label. Those that a namespace names count as
//! given by an admin, once, at the first start of this release; so an operator cannot label in
//! advance either.

use std::collections::{BTreeMap, BTreeSet};

use api_types::NodeId;
use api_types::access::Role;
use api_types::node::{GivenLabels, given_key};
use api_types::selector::Selector;
use control_plane::records::{RecordKind, RecordWrite};
use scheduler::input::Input;
use serde::Deserialize;

use super::join_token::StoredJoinToken;
use super::node::StoredIdentity;
use crate::driver::{CallError, Handle};
use crate::view::View;

/// What is needed here of the record of a namespace.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NodesOfNamespace {
    #[serde(default)]
    nodes: String,
}

/// The labels that a node has once a caller with this role gave it `labels`. An error names those of
/// an admin that the caller would change or remove.
pub(crate) fn given(
    labels: BTreeMap<String, String>,
    before: impl Iterator<Item = GivenLabels>,
    role: Role,
) -> Result<GivenLabels, Vec<String>> {
    let of_admin: BTreeMap<String, String> = before
        .flat_map(|GivenLabels { mut labels, of_admin }| {
            labels.retain(|key, _| of_admin.contains(key));
            labels
        })
        .collect();
    match role {
        Role::Admin => Ok(GivenLabels { of_admin: labels.keys().cloned().collect(), labels }),
        Role::Viewer | Role::Submitter | Role::Owner | Role::Monitor | Role::Operator => {
            let is_kept = |(key, value): &(&String, &String)| labels.get(*key) == Some(*value);
            let changed: Vec<String> = of_admin
                .iter()
                .filter(|label| !is_kept(label))
                .map(|(key, _)| key.clone())
                .collect();
            if !changed.is_empty() {
                return Err(changed);
            }
            Ok(GivenLabels { of_admin: of_admin.into_keys().collect(), labels })
        }
    }
}

/// Says of each label in records of earlier releases who gave it.
pub(crate) async fn assign_roles(handle: &Handle, view: &View) -> Result<(), CallError> {
    let (writes, nodes) = unassigned(view);
    if writes.is_empty() {
        return Ok(());
    }
    tracing::info!(
        nodes = nodes.len(),
        "labels that namespaces name count as given by an admin from now on"
    );
    handle.change_records(writes).await?;
    for (node, given) in nodes {
        // The scheduler need not know the node yet; its next session begins with the labels.
        if view.node(node).is_some() {
            handle.call(Input::LabelNode { node, given }).await?;
        }
    }
    Ok(())
}

/// What is to be written, and the labels of nodes that follow from it.
fn unassigned(view: &View) -> (Vec<RecordWrite>, Vec<(NodeId, GivenLabels)>) {
    let records = view.records();
    let named: BTreeSet<String> = records
        .of_kind(RecordKind::Namespace)
        .iter()
        .filter_map(|record| serde_json::from_str(&record.value).ok())
        .filter_map(|NodesOfNamespace { nodes }| Selector::parse(&nodes).ok())
        .flat_map(|selector| selector.requirements)
        .map(|requirement| given_key(&requirement.key).to_owned())
        .collect();
    let of_admin = |labels: &BTreeMap<String, String>| {
        Some(labels.keys().filter(|key| named.contains(*key)).cloned().collect())
    };
    let (mut writes, mut nodes) = (Vec::new(), Vec::new());
    for record in records.of_kind(RecordKind::NodeIdentity) {
        let Some(identity) = StoredIdentity::from_record(&record) else { continue };
        if identity.admin_labels.is_none() {
            let admin_labels = of_admin(&identity.labels);
            let identity = StoredIdentity { admin_labels, ..identity };
            let node = record.key.key.split(' ').next().and_then(|node| node.parse().ok());
            nodes.extend(node.map(|node| (node, identity.given())));
            writes.push(identity.write(record.key.clone(), record.unchanged()));
        }
    }
    for record in records.of_kind(RecordKind::JoinToken) {
        let Some(token) = StoredJoinToken::from_record(&record) else { continue };
        if token.admin_labels.is_none() {
            let admin_labels = of_admin(&token.labels);
            let token = StoredJoinToken { admin_labels, ..token };
            writes.push(token.write(&record.key.key, record.unchanged()));
        }
    }
    (writes, nodes)
}

#[cfg(test)]
mod tests {
    use api_types::{KeyDigest, Timestamp};
    use control_plane::records::{Expected, RecordRow};
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn keys(keys: &[&str]) -> BTreeSet<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn an_operator_gives_labels_in_addition_to_those_of_an_admin() {
        let before = GivenLabels {
            labels: labels(&[("pool", "ci"), ("zone", "a")]),
            of_admin: keys(&["pool"]),
        };
        let by = |role, wanted: &[(&str, &str)]| {
            given(labels(wanted), [before.clone()].into_iter(), role).map(|given| given.of_admin)
        };
        let operator = |wanted: &[(&str, &str)]| by(Role::Operator, wanted);
        assert_eq!(operator(&[("pool", "ci"), ("zone", "b"), ("rack", "1")]), Ok(keys(&["pool"])));
        for wanted in [&[][..], &[("zone", "a")], &[("pool", "prod"), ("zone", "a")]] {
            assert_eq!(operator(wanted), Err(vec!["pool".to_owned()]), "{wanted:?}");
        }
        assert_eq!(by(Role::Admin, &[("zone", "a")]), Ok(keys(&["zone"])));
        assert_eq!(by(Role::Admin, &[]), Ok(keys(&[])));
        let fresh = given(labels(&[("pool", "ci")]), std::iter::empty(), Role::Operator);
        assert_eq!(fresh.map(|given| given.of_admin), Ok(keys(&[])));
    }

    /// Records as earlier releases wrote them.
    #[test]
    fn labels_that_a_namespace_names_count_as_given_by_an_admin_once() {
        let view = View::default();
        let publish = |key, value: String| {
            let row = RecordRow { key, version: 1, value: Some(value.into()) };
            view.records().update(&[row]);
        };
        let node: NodeId = "n-00000000-0000-4000-8000-000000000007".parse().unwrap();
        let (digest, given) =
            (KeyDigest([7; 32]), json!({ "pool": "ci", "gpu": "a", "zone": "a" }));
        let identity = json!({
            "TokenID": "t", "Labels": given, "JoinTime": Timestamp(0), "ExpireTime": Timestamp(9),
        });
        publish(StoredIdentity::key(node, digest), identity.to_string());
        let token = json!({
            "Labels": given, "UsesLeft": 2, "CreateTime": Timestamp(0), "ExpireTime": Timestamp(9),
            "Hash": "h",
        });
        publish(StoredJoinToken::key("t"), token.to_string());
        for (name, nodes) in [("ci", "pool in (ci)"), ("ml", "operator/gpu"), ("all", "")] {
            let namespace = json!({ "Description": "", "Permissions": {}, "Nodes": nodes,
                "CreateTime": Timestamp(0), "ModifyTime": Timestamp(0) });
            publish(RecordKind::Namespace.key(name), namespace.to_string());
        }

        let (writes, nodes) = unassigned(&view);
        let of_admin = keys(&["pool", "gpu"]);
        assert_eq!(nodes.len(), 1);
        assert_eq!((nodes[0].0, &nodes[0].1.of_admin), (node, &of_admin));
        assert!(writes.iter().all(|write| write.expected == Expected::Version(1)));
        assert_eq!(writes.len(), 2);
        for write in writes {
            view.records().update(&[RecordRow { key: write.key, version: 2, value: write.value }]);
        }
        let token = view.records().get(&StoredJoinToken::key("t")).unwrap();
        assert_eq!(StoredJoinToken::from_record(&token).unwrap().admin_labels, Some(of_admin));

        // A namespace that names another label later changes nothing about it.
        let namespace = json!({ "Description": "", "Permissions": {}, "Nodes": "zone=a",
            "CreateTime": Timestamp(0), "ModifyTime": Timestamp(0) });
        publish(RecordKind::Namespace.key("late"), namespace.to_string());
        assert!(unassigned(&view).0.is_empty());
    }
}
