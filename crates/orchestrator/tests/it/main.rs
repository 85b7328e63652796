//! The HTTP API over real sockets: a whole orchestrator in this process, and fake nodes.

/// Which operations of the OpenAPI document the tests of a module cover: the operation, the test's
/// name, the test. `openapi::every_operation_has_a_test_that_uses_it` runs each and checks what it
/// requested.
type Coverage = &'static [(&'static str, &'static str, fn())];

/// `"operationId" => name_of_a_test;`, once per module.
macro_rules! covers {
    ($($operation:literal => $test:ident;)+) => {
        pub(crate) const COVERS: crate::Coverage = &[$(($operation, stringify!($test), $test)),+];
    };
}
pub(crate) use covers;

mod access;
mod agent;
mod archives;
mod audit;
mod body;
mod certificates;
mod changes;
mod cluster;
mod confidential;
mod create;
mod credentials;
mod daemon;
mod damage;
mod demand;
mod downstream;
mod errors;
mod events;
mod executions;
mod explain;
mod front;
mod graphs;
mod groups;
mod health;
mod history;
mod inputs;
mod jobs;
mod joining;
mod keys;
mod labels;
mod large;
mod lateness;
mod leading;
mod lineage;
mod login;
mod logs;
mod merged_logs;
mod metrics;
mod migrate;
mod monitor;
mod namespaces;
mod node;
mod node_history;
mod nodes;
mod oidc;
mod openapi;
mod pages;
mod protocol;
mod quotas;
mod regexes;
mod rejecting;
mod requester;
mod reruns;
mod results;
mod retention;
mod roles;
mod schedules;
mod sealed;
mod search;
mod secrets;
mod server;
mod sessions;
mod shares;
mod slots;
mod stop;
mod stream;
mod summaries;
mod tls;
mod tokens;
mod usage;
mod waiting;
mod yaml;
