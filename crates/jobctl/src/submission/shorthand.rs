//! The arguments of `run` as a job.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use api_types::credential::CREDENTIALS;
use api_types::engine::Params;
use api_types::job::Constraint;
use api_types::selector::{Requirement, Selector};
use api_types::submission::{
    ConstraintSubmission, JobSubmission, NetworkSubmission, ResourcesSubmission,
    ResultPathSubmission, RetryPolicySubmission, TaskSecretSubmission, TaskSubmission,
    TimeoutsSubmission, TypedSubmission,
};
use serde_json::Value;

use super::publisher::publisher;
use super::source;
use crate::cli::{Engine, Network, RunArgs};
use crate::exit::UsageError;

/// Name of the only task of a job from arguments.
const TASK_NAME: &str = "main";

/// Builds the job; absent arguments stay absent, so that the service applies its defaults.
pub(crate) fn shorthand(args: &RunArgs, namespace: Option<String>) -> Result<JobSubmission> {
    let job = &args.job;
    let retry_policy = job.attempts.map(|attempts| RetryPolicySubmission {
        attempts: Some(attempts.into()),
        ..RetryPolicySubmission::default()
    });
    Ok(JobSubmission {
        name: job.name.clone(),
        namespace,
        job_type: Some(job.job_type.clone()),
        priority: job.priority.map(Into::into),
        count: job.count.map(Into::into),
        max_running: job.max_running.map(Into::into),
        constraints: non_empty(constraints(&job.constraints)?),
        labels: map(&job.labels),
        retry_policy,
        max_failed: job.max_failed.map(Into::into),
        concurrency_groups: non_empty(job.groups.clone()),
        on_conflict: job.on_conflict.clone(),
        tasks: Some(vec![task(args)?]),
        ..JobSubmission::default()
    })
}

fn task(args: &RunArgs) -> Result<TaskSubmission> {
    let task = &args.task;
    let resources = ResourcesSubmission {
        cpu: task.cpu.clone(),
        memory: task.memory.clone(),
        disk: task.disk.clone(),
        gpu: task.gpu.clone(),
    };
    let timeouts = TimeoutsSubmission {
        execution_timeout: task.timeout.map(whole_seconds),
        queue_timeout: args.job.queue_timeout.map(whole_seconds),
        total_timeout: args.job.total_timeout.map(whole_seconds),
        lost_after: args.job.lost_after.map(whole_seconds),
    };
    let inputs: Vec<_> =
        task.inputs.iter().map(|text| source::input(text)).collect::<Result<_>>()?;
    let results: Vec<_> = task
        .results
        .iter()
        .map(|(name, path)| ResultPathSubmission {
            name: Some(name.clone()),
            path: Some(path.clone()),
        })
        .collect();
    Ok(TaskSubmission {
        name: Some(TASK_NAME.to_owned()),
        engine: Some(engine(args)?),
        publisher: task.publisher.as_deref().map(publisher).transpose()?,
        env: map(&task.env),
        secrets: non_empty(task.secrets.iter().map(|text| secret(text)).collect()),
        input_sources: non_empty(inputs),
        result_paths: non_empty(results),
        resources: (resources != ResourcesSubmission::default()).then_some(resources),
        network: network(task.network, &task.domains)?,
        timeouts: (timeouts != TimeoutsSubmission::default()).then_some(timeouts),
        ..TaskSubmission::default()
    })
}

/// A secret in a file, or in the variable with this name.
fn secret(text: &str) -> TaskSecretSubmission {
    let (name, place) = text.split_once(':').map_or((text, None), |(name, at)| (name, Some(at)));
    let (path, env) = match place.map(str::to_owned) {
        Some(path) if path.starts_with('/') => (Some(path), None),
        variable => (None, variable),
    };
    TaskSecretSubmission { name: Some(name.to_owned()), path, env }
}

fn engine(args: &RunArgs) -> Result<TypedSubmission> {
    let task = &args.task;
    let mut params = Params::new();
    if !args.command.is_empty() {
        params.insert("Parameters".to_owned(), args.command.clone().into());
    }
    let kind = match args.engine {
        Engine::Docker => {
            params.insert("Image".to_owned(), args.image.clone().into());
            if let Some(name) = &task.credentials {
                params.insert(CREDENTIALS.to_owned(), name.clone().into());
            }
            if let Some(entrypoint) = &task.entrypoint {
                params.insert("Entrypoint".to_owned(), vec![entrypoint.clone()].into());
            }
            if let Some(directory) = &task.workdir {
                params.insert("WorkingDirectory".to_owned(), directory.clone().into());
            }
            "docker"
        }
        Engine::Wasm => {
            if task.workdir.is_some() {
                return Err(UsageError::new("--workdir is for --engine docker").into());
            }
            let mut module = source::module(&args.image)?;
            if let Some(name) = &task.credentials {
                module["Source"]["Params"][CREDENTIALS] = name.clone().into();
            }
            params.insert("EntryModule".to_owned(), module);
            if let Some(entrypoint) = &task.entrypoint {
                params.insert("EntryPoint".to_owned(), Value::from(entrypoint.clone()));
            }
            "wasm"
        }
    };
    Ok(TypedSubmission { kind: Some(kind.to_owned()), params: Some(params) })
}

fn network(network: Network, domains: &[String]) -> Result<Option<NetworkSubmission>> {
    let (kind, domains) = match network {
        Network::None | Network::Full if !domains.is_empty() => {
            return Err(UsageError::new("--domain is for --network http").into());
        }
        Network::None => return Ok(None),
        Network::Full => ("Full", None),
        Network::Http => ("HTTP", Some(domains.to_vec())),
    };
    Ok(Some(NetworkSubmission { network_type: Some(kind.to_owned()), domains }))
}

/// Parses constraints, which have the grammar of label selectors.
fn constraints(selectors: &[String]) -> Result<Vec<ConstraintSubmission>> {
    let mut constraints = Vec::new();
    for text in selectors {
        let selector = Selector::parse(text)
            .map_err(|error| UsageError::new(format!("--constraint: {error}")))?;
        constraints.extend(selector.requirements.into_iter().map(constraint));
    }
    Ok(constraints)
}

fn constraint(requirement: Requirement) -> ConstraintSubmission {
    let Constraint { key, operator, values } = requirement.into();
    ConstraintSubmission { key: Some(key), operator: Some(operator), values: Some(values) }
}

fn map(pairs: &[(String, String)]) -> Option<BTreeMap<String, String>> {
    (!pairs.is_empty()).then(|| pairs.iter().cloned().collect())
}

fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn whole_seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::cli::{Cli, Command};

    fn job(arguments: &[&str]) -> Result<Value> {
        let line = ["jobctl", "run"].iter().chain(arguments);
        let Command::Run(args) = Cli::try_parse_from(line).unwrap().command else {
            panic!("it is a run");
        };
        Ok(serde_json::to_value(shorthand(&args, None)?).unwrap())
    }

    #[test]
    fn absent_arguments_are_left_to_the_service() {
        let expected = json!({
            "Type": "batch",
            "Tasks": [{
                "Name": "main",
                "Engine": { "Type": "docker", "Params": { "Image": "image:1" } },
            }],
        });
        assert_eq!(job(&["image:1"]).unwrap(), expected);
    }

    #[test]
    fn every_argument_reaches_its_field_of_the_job() {
        let line = "--name n --type service --count 2 --max-running 1 --priority 7 --label a=b \
             --attempts 3 --max-failed -1 --queue-timeout 1m --total-timeout 1h --timeout 90 --cpu 1 \
             --memory 1gb --disk 2gb --gpu 1 -i s3://b/k:/in --result out:/outputs -p local \
             -e X=1=2 --entrypoint sh -w /tmp --network http --domain example.com";
        let mut arguments: Vec<_> = line.split_whitespace().collect();
        arguments.extend(["--constraint", "zone in (a,b),!old,disk>5", "image", "--", "-c", "x y"]);
        let expected = json!({
            "Name": "n", "Type": "service", "Count": 2, "MaxRunning": 1, "Priority": 7,
            "Labels": { "a": "b" },
            "Constraints": [
                { "Key": "zone", "Operator": "in", "Values": ["a", "b"] },
                { "Key": "old", "Operator": "!", "Values": [] },
                { "Key": "disk", "Operator": "gt", "Values": ["5"] },
            ],
            "RetryPolicy": { "Attempts": 3 }, "MaxFailed": -1,
            "Tasks": [{
                "Name": "main",
                "Engine": { "Type": "docker", "Params": {
                    "Image": "image", "Entrypoint": ["sh"], "Parameters": ["-c", "x y"],
                    "WorkingDirectory": "/tmp",
                } },
                "Publisher": { "Type": "local" },
                "Env": { "X": "1=2" },
                "InputSources": [{
                    "Source": { "Type": "s3", "Params": { "Bucket": "b", "Key": "k" } },
                    "Target": "/in",
                }],
                "ResultPaths": [{ "Name": "out", "Path": "/outputs" }],
                "Resources": { "CPU": "1", "Memory": "1gb", "Disk": "2gb", "GPU": "1" },
                "Network": { "Type": "HTTP", "Domains": ["example.com"] },
                "Timeouts": { "ExecutionTimeout": 90, "QueueTimeout": 60, "TotalTimeout": 3600 },
            }],
        });
        assert_eq!(job(&arguments).unwrap(), expected);
    }

    #[test]
    fn a_module_may_be_a_url() {
        let arguments = ["--engine", "wasm", "--entrypoint", "go", "https://h/m.wasm", "a"];
        let expected = json!({ "Type": "wasm", "Params": {
            "EntryModule": { "Source": { "Type": "urldownload", "Params": { "URL": "https://h/m.wasm" } } },
            "EntryPoint": "go",
            "Parameters": ["a"],
        } });
        assert_eq!(job(&arguments).unwrap()["Tasks"][0]["Engine"], expected);
    }

    #[test]
    fn arguments_without_effect_are_refused() {
        for arguments in [
            &["--engine", "wasm", "-w", "/x", "https://h/m.wasm"][..],
            &["--domain", "example.com", "image"],
            &["--constraint", "zone in", "image"],
        ] {
            assert!(job(arguments).unwrap_err().is::<UsageError>(), "{arguments:?}");
        }
    }
}
