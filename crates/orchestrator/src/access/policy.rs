//! What each operation needs: the only place that says so.
//!
//! The table of docs/security.md says it for people; a test asks the running service for every
//! operation of its OpenAPI document and compares.

use api_types::access::Role;
use api_types::routes;
use http::Method;

use super::Needs;

const VIEWER: Needs = Needs::Role(Role::Viewer);
const SUBMITTER: Needs = Needs::Role(Role::Submitter);
const OWNER: Needs = Needs::Role(Role::Owner);
const OPERATOR: Needs = Needs::Role(Role::Operator);
const ADMIN: Needs = Needs::Role(Role::Admin);

const POLICY: &[(&str, Method, Needs)] = &[
    (routes::JOBS, Method::GET, VIEWER),
    (routes::JOBS, Method::PUT, SUBMITTER),
    (routes::JOBS, Method::POST, SUBMITTER),
    (routes::JOB, Method::GET, VIEWER),
    (routes::JOB, Method::DELETE, SUBMITTER),
    (routes::JOB_EXPLAIN, Method::GET, VIEWER),
    (routes::JOB_HISTORY, Method::GET, VIEWER),
    (routes::JOB_EXECUTIONS, Method::GET, VIEWER),
    (routes::JOB_RESULTS, Method::GET, SUBMITTER),
    (routes::JOB_LOGS, Method::GET, SUBMITTER),
    (routes::EXECUTIONS, Method::GET, VIEWER),
    (routes::EXECUTION, Method::GET, VIEWER),
    (routes::EXECUTION_RESULTS, Method::GET, SUBMITTER),
    (routes::EVENTS, Method::GET, VIEWER),
    (routes::CHANGES, Method::GET, VIEWER),
    (routes::CLUSTER, Method::GET, Needs::Credentials),
    (routes::CLUSTER_LOAD, Method::GET, Needs::Credentials),
    (routes::NODES, Method::GET, Needs::Credentials),
    (routes::NODE, Method::GET, Needs::Credentials),
    (routes::NODE_HISTORY, Method::GET, Needs::Credentials),
    (routes::NODE, Method::PUT, OPERATOR),
    (routes::NODE, Method::DELETE, OPERATOR),
    (routes::NODE_SESSION, Method::PUT, Needs::Node),
    (routes::NODE_HEARTBEAT, Method::PUT, Needs::Node),
    (routes::NODE_ASSIGNMENTS, Method::GET, Needs::Node),
    (routes::NODE_EXECUTIONS, Method::PUT, Needs::Node),
    (routes::NODE_STREAM, Method::POST, Needs::Node),
    (routes::TOKENS, Method::GET, OWNER),
    (routes::TOKENS, Method::POST, OWNER),
    (routes::TOKEN, Method::DELETE, Needs::Credentials),
    (routes::NAMESPACES, Method::GET, Needs::Credentials),
    (routes::NAMESPACE, Method::GET, VIEWER),
    (routes::NAMESPACE, Method::PUT, ADMIN),
    (routes::NAMESPACE, Method::DELETE, ADMIN),
    (routes::IDENTITY, Method::GET, Needs::Credentials),
    (routes::AUTH_SESSION, Method::POST, Needs::Nothing),
    (routes::AUTH_SESSION, Method::DELETE, Needs::Credentials),
    (routes::AGENT_NODE, Method::GET, Needs::Credentials),
    (routes::ALIVE, Method::GET, Needs::Nothing),
    (routes::VERSION, Method::GET, Needs::Nothing),
    (routes::LIVEZ, Method::GET, Needs::Nothing),
    (routes::READYZ, Method::GET, Needs::Nothing),
    (routes::METRICS, Method::GET, OPERATOR),
    (routes::OPENAPI, Method::GET, Needs::Credentials),
];

/// What a request to a route needs. One that is not in the table is for admins: nothing is open
/// because somebody forgot it.
pub(crate) fn needs(method: &Method, route: &str) -> Needs {
    if route.starts_with(routes::REQUESTER.trim_end_matches('/')) {
        return Needs::Nothing;
    }
    // A response without its body needs what the whole one does.
    let asked = if *method == Method::HEAD { &Method::GET } else { method };
    let mut of_route = POLICY.iter().filter(|(path, ..)| *path == route).peekable();
    if of_route.peek().is_none() {
        return ADMIN;
    }
    // A method that the route does not have is refused as such, to callers who are known.
    of_route.find(|(_, method, _)| method == asked).map_or(Needs::Credentials, |(.., needs)| *needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_in_the_table_once() {
        for (at, (path, method, _)) in POLICY.iter().enumerate() {
            let same = POLICY[at + 1..].iter().find(|(other, m, _)| other == path && m == method);
            assert_eq!(same, None, "{method} {path}");
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_closed() {
        assert_eq!(needs(&Method::GET, "/api/v1/orchestrator/unknown"), ADMIN);
        assert_eq!(needs(&Method::PATCH, routes::JOBS), Needs::Credentials);
        assert_eq!(needs(&Method::HEAD, routes::JOB), VIEWER);
        assert_eq!(needs(&Method::PUT, "/api/v1/requester/{*rest}"), Needs::Nothing);
    }
}
