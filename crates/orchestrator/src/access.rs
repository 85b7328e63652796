//! Who a caller is, and what the caller may do.
//!
//! A request is judged twice. Before its handler runs, [`policy`] says what the operation needs, and
//! a caller that has it nowhere is refused. In the handler, every record is searched for within the
//! namespaces that the caller sees: what lies outside looks as if it did not exist, and what the
//! caller sees but may not touch is refused by its namespace.

pub(crate) mod bootstrap;
pub(crate) mod claims;
pub(crate) mod credential;
pub(crate) mod exchange;
pub(crate) mod join_token;
pub(crate) mod labels;
pub(crate) mod left_token;
pub(crate) mod lineage;
pub(crate) mod masking;
pub(crate) mod node;
pub(crate) mod policy;
pub(crate) mod rejection;
pub(crate) mod token;
pub(crate) mod token_count;
pub(crate) mod upkeep;

use std::collections::BTreeSet;

use api_types::NodeId;
use api_types::access::Role;
use control_plane::store::Namespaces;

/// A caller whose credentials were verified, or who needs none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) who: Who,
    pub(crate) role: Role,
    /// Those that the role applies to.
    pub(crate) namespaces: Namespaces,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    /// Any user of this machine, where no credentials are required.
    Local,
    /// The holder of a node's certificate.
    Node(NodeId),
    Token {
        id: String,
        name: String,
        /// The session of a browser that signed in with the token.
        session: Option<String>,
    },
}

/// What an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// Any valid credentials.
    Credentials,
    /// Any valid credentials but those of a monitor, which are shown to nodes.
    User,
    /// A role; that of a namespace is needed where the record is.
    Role(Role),
    /// The certificate of the node in the path.
    Node,
}

// === impl Caller ===

impl Caller {
    pub(crate) fn local() -> Self {
        Self { who: Who::Local, role: Role::Admin, namespaces: Namespaces::All }
    }

    /// A node, which has no role: it speaks the agent protocol for itself.
    pub(crate) fn node(id: NodeId) -> Self {
        let namespaces = Namespaces::Only(BTreeSet::new());
        Self { who: Who::Node(id), role: Role::Viewer, namespaces }
    }

    /// The name that records keep of the caller.
    pub(crate) fn name(&self) -> &str {
        match &self.who {
            Who::Local => "local",
            Who::Node(_) => "node",
            Who::Token { name, .. } => name,
        }
    }

    /// The namespaces whose records exist for the caller.
    pub(crate) fn visible(&self) -> Namespaces {
        match (self.role.is_of_the_cluster(), self.role.sees_all_namespaces()) {
            (_, true) => Namespaces::All,
            (true, false) => Namespaces::Only(BTreeSet::new()),
            (false, false) => self.namespaces.clone(),
        }
    }

    pub(crate) fn sees(&self, namespace: &str) -> bool {
        self.role.sees_all_namespaces()
            || (!self.role.is_of_the_cluster() && self.namespaces.contain(namespace))
    }

    /// Whether the caller has this role in the namespace.
    pub(crate) fn may(&self, role: Role, namespace: &str) -> bool {
        self.sees(namespace) && self.role.within_a_namespace() >= Some(role)
    }

    /// Whether some record exists for which the caller has what is needed.
    pub(crate) fn has_somewhere(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing | Needs::Credentials => true,
            Needs::User => self.role != Role::Monitor,
            Needs::Role(Role::Admin) => self.role == Role::Admin,
            Needs::Role(Role::Operator) => self.role.sees_all_namespaces(),
            Needs::Role(Role::Monitor) => self.role.is_of_the_cluster(),
            Needs::Role(role @ (Role::Viewer | Role::Submitter | Role::Owner)) => {
                self.role.within_a_namespace() >= Some(role)
            }
            Needs::Node => self.who == Who::Local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(role: Role, names: &[&str]) -> Caller {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let who = Who::Token { id: "t".to_owned(), name: "it".to_owned(), session: None };
        Caller { who, role, namespaces: Namespaces::Only(names) }
    }

    #[test]
    fn a_role_of_a_namespace_ends_at_its_border() {
        let owner = caller(Role::Owner, &["a", "b"]);
        assert!(owner.may(Role::Submitter, "a") && owner.may(Role::Owner, "b"));
        assert!(!owner.sees("c") && !owner.may(Role::Viewer, "c"));
        let viewer = caller(Role::Viewer, &["a"]);
        assert!(viewer.sees("a") && !viewer.may(Role::Submitter, "a"));
        assert!(!viewer.has_somewhere(Needs::Role(Role::Submitter)));
    }

    #[test]
    fn an_operator_sees_everything_and_submits_nowhere() {
        let operator = caller(Role::Operator, &[]);
        assert!(operator.sees("a") && operator.may(Role::Viewer, "a"));
        assert!(!operator.may(Role::Submitter, "a"));
        assert!(operator.has_somewhere(Needs::Role(Role::Operator)));
        assert!(!operator.has_somewhere(Needs::Role(Role::Admin)));
        assert!(!operator.has_somewhere(Needs::Node));
        assert_eq!(operator.visible(), Namespaces::All);
        let admin = caller(Role::Admin, &[]);
        assert!(admin.may(Role::Owner, "a") && admin.has_somewhere(Needs::Role(Role::Admin)));
        assert!(!admin.has_somewhere(Needs::Node));
    }

    #[test]
    fn a_monitor_scrapes_and_sees_nothing() {
        let all = Namespaces::All;
        let monitor = Caller { namespaces: all, ..caller(Role::Monitor, &[]) };
        assert!(!monitor.sees("a") && !monitor.may(Role::Viewer, "a"));
        assert_eq!(monitor.visible(), Namespaces::Only(BTreeSet::new()));
        assert!(monitor.has_somewhere(Needs::Role(Role::Monitor)));
        assert!(monitor.has_somewhere(Needs::Credentials));
        for role in [Role::Viewer, Role::Submitter, Role::Owner, Role::Operator, Role::Admin] {
            assert!(!monitor.has_somewhere(Needs::Role(role)), "{role}");
        }
        assert!(!monitor.has_somewhere(Needs::User) && !monitor.has_somewhere(Needs::Node));
        for role in [Role::Viewer, Role::Submitter, Role::Owner] {
            assert!(!caller(role, &["a"]).has_somewhere(Needs::Role(Role::Monitor)), "{role}");
        }
    }
}
