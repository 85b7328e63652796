//! What each operation needs: the only place that says so.
//!
//! docs/security.md has the same table for people; a test calls every operation of the OpenAPI
//! document and compares the responses with it.

use api_types::access::Role;
use api_types::{requester, routes};
use http::Method;

use super::Needs;

const VIEWER: Needs = Needs::Role(Role::Viewer);
const SUBMITTER: Needs = Needs::Role(Role::Submitter);
const OWNER: Needs = Needs::Role(Role::Owner);
const MONITOR: Needs = Needs::Role(Role::Monitor);
const OPERATOR: Needs = Needs::Role(Role::Operator);
const ADMIN: Needs = Needs::Role(Role::Admin);

/// The route, the method, the ID of the operation, and what it needs.
const POLICY: &[(&str, Method, &str, Needs)] = &[
    (routes::JOBS, Method::GET, "listJobs", VIEWER),
    (routes::JOBS, Method::PUT, "createJob", SUBMITTER),
    (routes::JOBS, Method::POST, "createJobByPost", SUBMITTER),
    (routes::JOB_GRAPH, Method::POST, "createGraph", SUBMITTER),
    (routes::GRAPHS, Method::GET, "listGraphs", VIEWER),
    (routes::GRAPH, Method::GET, "describeGraph", VIEWER),
    (routes::GRAPH, Method::DELETE, "stopGraph", SUBMITTER),
    (routes::JOB, Method::GET, "describeJob", VIEWER),
    (routes::JOB, Method::DELETE, "stopJob", SUBMITTER),
    (routes::JOB_EXPLAIN, Method::GET, "explainJob", VIEWER),
    (routes::JOB_HISTORY, Method::GET, "listHistory", VIEWER),
    (routes::JOB_EXECUTIONS, Method::GET, "listExecutions", VIEWER),
    (routes::JOB_RERUN, Method::POST, "rerunJob", SUBMITTER),
    (routes::JOB_SLOTS, Method::GET, "describeSlots", VIEWER),
    (routes::JOB_RESULTS, Method::GET, "listResults", SUBMITTER),
    (routes::JOB_LOGS, Method::GET, "readLogs", SUBMITTER),
    (routes::EXECUTIONS, Method::GET, "listLiveExecutions", VIEWER),
    (routes::EXECUTION, Method::GET, "describeExecution", VIEWER),
    (routes::USAGE, Method::GET, "listUsage", VIEWER),
    (routes::EXECUTION_USAGE, Method::GET, "describeExecutionUsage", VIEWER),
    (routes::JOB_USAGE, Method::GET, "describeJobUsage", VIEWER),
    (routes::EXECUTION_RESULTS, Method::GET, "readExecutionResults", SUBMITTER),
    (routes::EVENTS, Method::GET, "streamEvents", VIEWER),
    (routes::CHANGES, Method::GET, "streamChanges", VIEWER),
    (routes::CLUSTER, Method::GET, "describeCluster", Needs::User),
    (routes::CLUSTER_LOAD, Method::GET, "readClusterLoad", Needs::User),
    (routes::CLUSTER_DEMAND, Method::GET, "readClusterDemand", VIEWER),
    (routes::CLUSTER_MEMBERS, Method::GET, "listMembers", Needs::User),
    (routes::SEARCH, Method::GET, "search", VIEWER),
    (routes::NODES, Method::GET, "listNodes", Needs::User),
    (routes::NODE, Method::GET, "describeNode", Needs::User),
    (routes::NODE_HISTORY, Method::GET, "listNodeHistory", Needs::User),
    (routes::NODE_USAGE, Method::GET, "describeNodeUsage", Needs::User),
    (routes::NODE, Method::PUT, "actOnNode", OPERATOR),
    (routes::NODE, Method::DELETE, "forgetNode", OPERATOR),
    (routes::NODE_LABELS, Method::PUT, "labelNode", OPERATOR),
    (routes::NODE_SESSION, Method::PUT, "joinNode", Needs::Node),
    (routes::NODE_HEARTBEAT, Method::PUT, "renewLease", Needs::Node),
    (routes::NODE_ASSIGNMENTS, Method::GET, "streamAssignments", Needs::Node),
    (routes::NODE_EXECUTIONS, Method::PUT, "reportExecutions", Needs::Node),
    (routes::NODE_STREAM, Method::POST, "deliverOutput", Needs::Node),
    (routes::NODE_SECRETS, Method::POST, "readSecrets", Needs::Node),
    (routes::NODE_CREDENTIALS, Method::POST, "readCredentials", Needs::Node),
    (routes::NODE_INPUTS, Method::POST, "readInputResults", Needs::Node),
    (routes::NODE_INPUT_ARCHIVE, Method::POST, "readInputArchive", Needs::Node),
    (routes::NODE_NEEDED_ARCHIVES, Method::POST, "listNeededArchives", Needs::Node),
    (routes::NODE_CERTIFICATE, Method::POST, "renewCertificate", Needs::Node),
    // The join token is in the body.
    (routes::NODE_JOIN, Method::POST, "enrolNode", Needs::Nothing),
    (routes::NODE_TOKENS, Method::GET, "listNodeTokens", OPERATOR),
    (routes::NODE_TOKENS, Method::POST, "createNodeToken", OPERATOR),
    (routes::NODE_TOKEN, Method::DELETE, "revokeNodeToken", OPERATOR),
    (routes::TOKENS, Method::GET, "listTokens", OWNER),
    (routes::TOKENS, Method::POST, "createToken", OWNER),
    (routes::TOKENS, Method::DELETE, "revokeTokens", ADMIN),
    (routes::TOKEN, Method::DELETE, "revokeToken", Needs::User),
    (routes::SECRETS, Method::GET, "listSecrets", SUBMITTER),
    (routes::SECRET, Method::GET, "describeSecret", SUBMITTER),
    (routes::SECRET, Method::PUT, "putSecret", OWNER),
    (routes::SECRET, Method::DELETE, "deleteSecret", OWNER),
    (routes::CREDENTIALS, Method::GET, "listCredentials", SUBMITTER),
    (routes::CREDENTIAL, Method::GET, "describeCredential", SUBMITTER),
    (routes::CREDENTIAL, Method::PUT, "putCredential", OWNER),
    (routes::CREDENTIAL, Method::DELETE, "deleteCredential", OWNER),
    (routes::GROUPS, Method::GET, "listGroups", VIEWER),
    (routes::GROUP, Method::GET, "describeGroup", VIEWER),
    (routes::GROUP, Method::PUT, "putGroup", OWNER),
    (routes::GROUP, Method::DELETE, "deleteGroup", OWNER),
    (routes::SCHEDULES, Method::GET, "listSchedules", VIEWER),
    (routes::SCHEDULE, Method::GET, "describeSchedule", VIEWER),
    (routes::SCHEDULE, Method::PUT, "putSchedule", OWNER),
    (routes::SCHEDULE, Method::DELETE, "deleteSchedule", OWNER),
    (routes::SCHEDULE_TRIGGER, Method::POST, "triggerSchedule", SUBMITTER),
    (routes::SCHEDULE_RUNS, Method::GET, "listScheduleRuns", VIEWER),
    (routes::KEYS, Method::GET, "listKeys", ADMIN),
    (routes::KEYS, Method::POST, "rotateKey", ADMIN),
    (routes::AUDIT, Method::GET, "listAudit", ADMIN),
    (routes::NAMESPACES, Method::GET, "listNamespaces", Needs::User),
    (routes::NAMESPACE, Method::GET, "describeNamespace", VIEWER),
    (routes::NAMESPACE, Method::PUT, "putNamespace", ADMIN),
    (routes::NAMESPACE, Method::DELETE, "deleteNamespace", ADMIN),
    (routes::IDENTITY, Method::GET, "describeIdentity", Needs::Credentials),
    (routes::AUTH_SESSION, Method::POST, "signIn", Needs::Nothing),
    (routes::AUTH_SESSION, Method::DELETE, "signOut", Needs::User),
    (routes::AUTH_METHODS, Method::GET, "describeSignIn", Needs::Nothing),
    // The ID token is in the body.
    (routes::AUTH_EXCHANGE, Method::POST, "exchangeIdToken", Needs::Nothing),
    (routes::AUTH_LOGIN, Method::GET, "beginSignIn", Needs::Nothing),
    (routes::AUTH_CALLBACK, Method::GET, "finishSignIn", Needs::Nothing),
    (routes::AGENT_NODE, Method::GET, "describeOwnNode", Needs::User),
    (routes::ALIVE, Method::GET, "isAlive", Needs::Nothing),
    (routes::VERSION, Method::GET, "describeVersion", Needs::Nothing),
    (routes::LIVEZ, Method::GET, "isLive", Needs::Nothing),
    (routes::READYZ, Method::GET, "isReady", Needs::Nothing),
    (routes::METRICS, Method::GET, "scrapeMetrics", MONITOR),
    (routes::OPENAPI, Method::GET, "describeApi", Needs::User),
];

/// What the operations of one path need.
pub(crate) struct Rules {
    each: Vec<(Method, Rule)>,
    /// For other methods, which no operation has.
    otherwise: Needs,
}

/// What a request is for, and what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The ID of the operation; empty where the route has no such method.
    pub(crate) operation: &'static str,
    pub(crate) needs: Needs,
}

/// What the operations of a path need, which has these methods; `None` if the table lacks one of
/// them.
pub(crate) fn rules(pattern: &str, methods: &[&Method]) -> Option<Rules> {
    let row = |method: &&Method| {
        let mut rows = POLICY.iter();
        let (_, method, operation, needs) =
            rows.find(|(path, known, ..)| *path == pattern && known == *method)?;
        Some((method.clone(), Rule { operation, needs: *needs }))
    };
    // Of what was replaced, all that is there is the name of the operation to use. What no operation
    // has is refused as such, to callers who are known.
    let is_replaced = requester::PATTERNS.contains(&pattern);
    let otherwise = if is_replaced { Needs::Nothing } else { Needs::Credentials };
    Some(Rules { each: methods.iter().map(row).collect::<Option<_>>()?, otherwise })
}

// === impl Rules ===

impl Rules {
    pub(crate) fn rule(&self, method: &Method) -> Rule {
        // A response without its body needs what the whole one does.
        let asked = if *method == Method::HEAD { &Method::GET } else { method };
        let found = self.each.iter().find(|(method, _)| method == asked);
        found.map_or(Rule { operation: "", needs: self.otherwise }, |(_, rule)| *rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_in_the_table_once() {
        for (at, (path, method, operation, _)) in POLICY.iter().enumerate() {
            let mut others = POLICY[at + 1..].iter();
            let same =
                others.find(|(other, m, id, _)| (other == path && m == method) || id == operation);
            assert_eq!(same, None, "{method} {path}");
        }
    }

    #[test]
    fn a_method_that_no_operation_has_is_refused_to_callers_who_are_known() {
        let jobs = rules(routes::JOBS, &[&Method::GET, &Method::PUT]).unwrap();
        assert_eq!(jobs.rule(&Method::PATCH).needs, Needs::Credentials);
        assert_eq!(jobs.rule(&Method::HEAD).needs, VIEWER);
        for pattern in requester::PATTERNS {
            let needs = rules(pattern, &[]).unwrap().rule(&Method::PUT).needs;
            assert_eq!(needs, Needs::Nothing, "{pattern}");
        }
    }

    #[test]
    fn what_is_not_in_the_table_has_no_rules() {
        assert!(rules(routes::JOBS, &[&Method::GET, &Method::PATCH]).is_none());
        assert!(rules("/api/v1/orchestrator/unknown", &[&Method::GET]).is_none());
    }
}
