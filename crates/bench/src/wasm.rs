//! WebAssembly programs, which run in a process each.

use std::time::Instant;

use serde_json::json;

use super::lifecycles::wait_until_all_ended;
use super::load::{self, Connection, Until, put};
use super::measure::{Measure, Target, rate};
use super::scale::Scale;
use testbed::harness::{AgentSpec, ClusterSpec};

/// `(module (func (export "_start")))`
const SMALLEST: &str =
    "data:application/wasm;base64,AGFzbQEAAAABBAFgAAADAgEABwoBBl9zdGFydAAACgQBAgAL";

/// Executions of each job.
const PER_JOB: u64 = 500;

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let agent = AgentSpec::new().engines("wasm").cpu("1000").memory("4000GB");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let address = cluster.orchestrator.address();
    let mut watcher = Connection::open(address).await?;
    let module = json!({ "Source": { "Type": "inline", "Params": { "URL": SMALLEST } } });
    let engine = json!({ "Type": "wasm", "Params": { "EntryModule": module } });
    let mut run = async |executions: u64| {
        let job = json!({
            "Type": "batch",
            "Count": executions,
            "Tasks": [{
                "Name": "main", "Engine": engine,
                "Resources": { "CPU": "1m", "Memory": "64MB" },
            }],
        });
        let begin = Instant::now();
        let body = put(api_types::routes::JOBS, &json!({ "Job": job }).to_string());
        load::run(address, 1, Until::Requests(1), body).await?;
        wait_until_all_ended(&mut watcher).await?;
        anyhow::Ok(rate(executions, begin.elapsed()))
    };
    // The first execution compiles the module.
    run(1).await?;
    let executions = PER_JOB * scale.thousands / 8;
    let rate = run(executions).await?;
    Ok(vec![Measure::new(
        format!("full lifecycles of the smallest wasm module, {executions} executions"),
        (rate, "/s"),
        Target::AtLeast(300.0),
        "a process for each execution; wished: 600".to_owned(),
    )])
}
