//! Whom a permit is charged to.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use control_plane::store::Namespaces;

use crate::access::{Caller, Who};

/// A principal within its group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) group: Group,
    /// A token, a node, or an address.
    principal: Arc<str>,
}

/// Those who share what one principal does not use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    /// All callers of an open listener.
    Everyone,
    /// Operators and admins.
    Cluster,
    Nodes,
    /// The callers of a namespace. One of several namespaces counts in the first, in order of their
    /// names.
    Namespace(Arc<str>),
    /// Callers without credentials.
    Unknown,
}

tokio::task_local! {
    /// Whose request a task is about, for work that is deep below its handler.
    static CURRENT: Owner;
}

static EVERYONE: LazyLock<Owner> =
    LazyLock::new(|| Owner { group: Group::Everyone, principal: "".into() });

// === impl Owner ===

impl Owner {
    /// All callers of an open listener.
    pub(crate) fn everyone() -> Self {
        EVERYONE.clone()
    }

    /// What the service does by itself.
    pub(crate) fn service() -> Self {
        Self { group: Group::Cluster, principal: "".into() }
    }

    /// Does the work, and whatever it waits for, on account of this owner.
    pub(crate) async fn within<T>(self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// On whose account the task works; that of unknown callers outside of [`Owner::within`].
    pub(crate) fn current() -> Self {
        Self::of_request().unwrap_or_else(|| Self::unknown(None))
    }

    /// On whose account the task works; none for what the service does by itself.
    pub(crate) fn of_request() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// A caller with credentials. All sessions of a token are one principal.
    pub(crate) fn for_caller(caller: &Caller) -> Self {
        match &caller.who {
            Who::Local => Self::everyone(),
            Who::Node(id) => Self { group: Group::Nodes, principal: id.to_string().into() },
            Who::Token { id, .. } => {
                // A monitor's token is shown to nodes, so it has no part in the reserve.
                let group = match (&caller.namespaces, caller.role.sees_all_namespaces()) {
                    (_, true) => Group::Cluster,
                    (Namespaces::All, false) => Group::Namespace("*".into()),
                    (Namespaces::Only(names), false) => {
                        let first = names.first().map(String::as_str).unwrap_or_default();
                        Group::Namespace(first.into())
                    }
                };
                Self { group, principal: id.as_str().into() }
            }
        }
    }

    /// A caller without credentials. Of IPv6 the network counts, because a host has as many
    /// addresses there as it likes.
    pub(crate) fn unknown(address: Option<IpAddr>) -> Self {
        let principal = match address.map(|address| address.to_canonical()) {
            None => String::new(),
            Some(IpAddr::V4(address)) => address.to_string(),
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        };
        Self { group: Group::Unknown, principal: principal.into() }
    }
}

/// As metrics and messages name it. No namespace has parentheses in its name.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everyone => "(everyone)",
            Self::Cluster => "(operators)",
            Self::Nodes => "(nodes)",
            Self::Namespace(name) => name,
            Self::Unknown => "(unknown)",
        })
    }
}
