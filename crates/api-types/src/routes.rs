//! Paths of the API, in the syntax of the router.

pub const JOBS: &str = "/api/v1/orchestrator/jobs";
pub const JOB: &str = "/api/v1/orchestrator/jobs/{job_id}";
pub const JOB_GRAPH: &str = "/api/v1/orchestrator/jobs/graph";
pub const GRAPHS: &str = "/api/v1/orchestrator/graphs";
pub const GRAPH: &str = "/api/v1/orchestrator/graphs/{graph_id}";
pub const JOB_EXPLAIN: &str = "/api/v1/orchestrator/jobs/{job_id}/explain";
pub const JOB_HISTORY: &str = "/api/v1/orchestrator/jobs/{job_id}/history";
pub const JOB_EXECUTIONS: &str = "/api/v1/orchestrator/jobs/{job_id}/executions";
pub const JOB_RESULTS: &str = "/api/v1/orchestrator/jobs/{job_id}/results";
pub const JOB_RERUN: &str = "/api/v1/orchestrator/jobs/{job_id}/rerun";
pub const JOB_SLOTS: &str = "/api/v1/orchestrator/jobs/{job_id}/slots";
pub const JOB_USAGE: &str = "/api/v1/orchestrator/jobs/{job_id}/usage";
pub const JOB_LOGS: &str = "/api/v1/orchestrator/jobs/{job_id}/logs";
pub const NODES: &str = "/api/v1/orchestrator/nodes";
pub const NODE: &str = "/api/v1/orchestrator/nodes/{node_id}";
pub const NODE_HISTORY: &str = "/api/v1/orchestrator/nodes/{node_id}/history";
pub const NODE_USAGE: &str = "/api/v1/orchestrator/nodes/{node_id}/usage";
pub const NODE_SESSION: &str = "/api/v1/orchestrator/nodes/{node_id}/session";
pub const NODE_HEARTBEAT: &str = "/api/v1/orchestrator/nodes/{node_id}/heartbeat";
pub const NODE_ASSIGNMENTS: &str = "/api/v1/orchestrator/nodes/{node_id}/assignments";
pub const NODE_EXECUTIONS: &str = "/api/v1/orchestrator/nodes/{node_id}/executions";
pub const NODE_STREAM: &str = "/api/v1/orchestrator/nodes/{node_id}/streams/{stream_id}";
pub const NODE_CERTIFICATE: &str = "/api/v1/orchestrator/nodes/{node_id}/certificate";
pub const NODE_LABELS: &str = "/api/v1/orchestrator/nodes/{node_id}/labels";
pub const NODE_SECRETS: &str = "/api/v1/orchestrator/nodes/{node_id}/secrets";
pub const NODE_CREDENTIALS: &str = "/api/v1/orchestrator/nodes/{node_id}/credentials";
pub const NODE_INPUTS: &str = "/api/v1/orchestrator/nodes/{node_id}/inputs";
pub const NODE_INPUT_ARCHIVE: &str = "/api/v1/orchestrator/nodes/{node_id}/inputs/archive";
pub const NODE_NEEDED_ARCHIVES: &str = "/api/v1/orchestrator/nodes/{node_id}/archives/needed";
pub const NODE_JOIN: &str = "/api/v1/orchestrator/nodes/join";
pub const NODE_TOKENS: &str = "/api/v1/orchestrator/nodes/tokens";
pub const NODE_TOKEN: &str = "/api/v1/orchestrator/nodes/tokens/{token_id}";
pub const EXECUTIONS: &str = "/api/v1/orchestrator/executions";
pub const EXECUTION: &str = "/api/v1/orchestrator/executions/{execution_id}";
pub const EXECUTION_USAGE: &str = "/api/v1/orchestrator/executions/{execution_id}/usage";
pub const EXECUTION_RESULTS: &str = "/api/v1/orchestrator/executions/{execution_id}/results";
pub const USAGE: &str = "/api/v1/orchestrator/usage";
pub const SEARCH: &str = "/api/v1/orchestrator/search";
pub const CLUSTER: &str = "/api/v1/orchestrator/cluster";
pub const CLUSTER_LOAD: &str = "/api/v1/orchestrator/cluster/load";
pub const CLUSTER_DEMAND: &str = "/api/v1/orchestrator/cluster/demand";
pub const CLUSTER_MEMBERS: &str = "/api/v1/orchestrator/cluster/members";
pub const CHANGES: &str = "/api/v1/orchestrator/changes";
pub const EVENTS: &str = "/api/v1/orchestrator/events";

pub const TOKENS: &str = "/api/v1/orchestrator/tokens";
pub const TOKEN: &str = "/api/v1/orchestrator/tokens/{token_id}";
pub const NAMESPACES: &str = "/api/v1/orchestrator/namespaces";
pub const NAMESPACE: &str = "/api/v1/orchestrator/namespaces/{namespace}";
pub const SECRETS: &str = "/api/v1/orchestrator/secrets";
pub const SECRET: &str = "/api/v1/orchestrator/secrets/{name}";
pub const CREDENTIALS: &str = "/api/v1/orchestrator/credentials";
pub const CREDENTIAL: &str = "/api/v1/orchestrator/credentials/{name}";
pub const GROUPS: &str = "/api/v1/orchestrator/groups";
pub const GROUP: &str = "/api/v1/orchestrator/groups/{name}";
pub const SCHEDULES: &str = "/api/v1/orchestrator/schedules";
pub const SCHEDULE: &str = "/api/v1/orchestrator/schedules/{name}";
pub const SCHEDULE_TRIGGER: &str = "/api/v1/orchestrator/schedules/{name}/trigger";
pub const SCHEDULE_RUNS: &str = "/api/v1/orchestrator/schedules/{name}/runs";
/// Keys of the cluster.
pub const KEYS: &str = "/api/v1/orchestrator/keys";

pub const AUDIT: &str = "/api/v1/orchestrator/audit";

/// As whom the caller is known.
pub const IDENTITY: &str = "/api/v1/auth/identity";
/// The session of a browser.
pub const AUTH_SESSION: &str = "/api/v1/auth/session";
/// How callers can sign in.
pub const AUTH_METHODS: &str = "/api/v1/auth/methods";
/// Where an ID token is traded for a token.
pub const AUTH_EXCHANGE: &str = "/api/v1/auth/exchange";
/// Where a browser goes to sign in at the issuer, and where it comes back.
pub const AUTH_LOGIN: &str = "/api/v1/auth/login";
pub const AUTH_CALLBACK: &str = "/api/v1/auth/callback";

pub const ALIVE: &str = "/api/v1/agent/alive";
pub const VERSION: &str = "/api/v1/agent/version";
pub const AGENT_NODE: &str = "/api/v1/agent/node";
pub const AGENT_EXECUTIONS: &str = "/api/v1/agent/executions";
pub const AGENT_EXECUTION: &str = "/api/v1/agent/executions/{execution_id}";
pub const AGENT_EXECUTION_LOGS: &str = "/api/v1/agent/executions/{execution_id}/logs";
pub const AGENT_RESULT: &str = "/api/v1/agent/results/{archive}";

/// The group that the orchestrator group replaced; every path below it returns 410.
pub const REQUESTER: &str = "/api/v1/requester/";

/// The OpenAPI document of the addressed daemon.
pub const OPENAPI: &str = "/api/v1/openapi.json";

pub const LIVEZ: &str = "/livez";
pub const READYZ: &str = "/readyz";
pub const METRICS: &str = "/metrics";

/// What programs ask for as long as they run, and no one looks up in a log.
pub const ROUTINE: [&str; 5] = [NODE_HEARTBEAT, ALIVE, LIVEZ, READYZ, METRICS];

/// Replaces the first parameter of a route.
pub fn fill(route: &str, value: impl std::fmt::Display) -> String {
    match (route.find('{'), route.find('}')) {
        (Some(open), Some(close)) => {
            format!("{}{value}{}", &route[..open], &route[close + 1..])
        }
        _ => route.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_of_a_route_is_replaced() {
        assert_eq!(fill(JOB_HISTORY, "j-1"), "/api/v1/orchestrator/jobs/j-1/history");
        assert_eq!(fill(JOBS, "x"), JOBS);
    }
}
