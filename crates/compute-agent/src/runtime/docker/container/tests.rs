//! How a task's specification becomes its container's configuration.

use std::sync::Arc;

use api_types::NodeId;
use api_types::protocol::Work;
use api_types::source::ResultPath;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::data::inputs::placement::MountedInput;
use crate::runtime::result_paths;
use crate::testing::{execution_id, plain_work};

fn run(change: impl FnOnce(&mut Work)) -> Run {
    let mut work = plain_work();
    change(&mut work);
    Run {
        id: execution_id(7),
        node_id: NodeId::from_uuid(Uuid::from_u128(9)),
        work: Arc::new(work),
        granted: Default::default(),
        inputs: vec![MountedInput {
            source: "/data/in".into(),
            target: "/inputs".to_owned(),
            writable: false,
        }],
        secrets: ExecutionSecrets::default(),
        modules: Vec::new(),
        gpus: Vec::new(),
        progress: crate::data::progress::Progress::silent(),
    }
}

fn host_config_of(change: impl FnOnce(&mut Work)) -> HostConfig {
    body(&run(change), &DockerParams::default(), &Facts::default(), None, &[]).host_config.unwrap()
}

#[test]
fn a_container_is_restricted_by_default() {
    let config = host_config_of(|_| ());
    assert_eq!(config.network_mode.as_deref(), Some("none"));
    assert_eq!((config.cap_drop, config.cap_add), (Some(vec!["ALL".to_owned()]), None));
    assert_eq!(config.security_opt, Some(vec!["no-new-privileges".to_owned()]));
    assert_eq!(config.pids_limit, Some(MAX_PIDS));
    assert_eq!((config.memory, config.memory_swap), (Some(64_000_000), Some(64_000_000)));
    assert_eq!(config.nano_cpus, Some(500_000_000));
    assert_eq!((config.init, config.privileged, config.device_requests), (Some(true), None, None));
    let mounts = config.mounts.unwrap();
    assert_eq!(mounts.len(), 1);
    assert_eq!((mounts[0].read_only, mounts[0].target.as_deref()), (Some(true), Some("/inputs")));
}

#[test]
fn shared_memory_is_as_large_as_the_memory_of_the_task() {
    assert_eq!(host_config_of(|_| ()).shm_size, Some(64_000_000));
    assert_eq!(host_config_of(|work| work.resources.memory = 0).shm_size, Some(64 << 20));
}

#[test]
fn an_entrypoint_of_nothing_is_that_of_the_image() {
    let entrypoint_of = |entrypoint: &[&str]| {
        let entrypoint = entrypoint.iter().map(|&word| word.to_owned()).collect();
        let params = DockerParams { entrypoint, ..DockerParams::default() };
        body(&run(|_| ()), &params, &Facts::default(), None, &[]).entrypoint
    };
    assert_eq!((entrypoint_of(&[]), entrypoint_of(&[""])), (None, None));
    assert_eq!(entrypoint_of(&["sh"]), Some(vec!["sh".to_owned()]));
}

#[test]
fn a_job_that_asks_for_whole_cores_has_as_many_threads_unless_it_says_otherwise() {
    let threads = |cpu: &str, set: &[(&str, &str)]| {
        let run = run(|work| {
            cpu.clone_into(&mut work.task.resources.cpu);
            let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            work.task.env = set.collect();
        });
        let env = env(&run, &DockerParams::default(), &Facts::default());
        ["GOMAXPROCS", "OMP_NUM_THREADS"].map(|name| env.get(name).cloned())
    };
    let one = || Some("1".to_owned());
    assert_eq!(threads("1", &[]), [one(), one()]);
    assert_eq!(threads("1", &[("GOMAXPROCS", "8")]), [Some("8".to_owned()), one()]);
    assert_eq!(threads("500m", &[]), [None, None]);
    assert_eq!(threads("", &[]), [None, None]);
    let env = env(&run(|_| ()), &DockerParams::default(), &Facts::default());
    assert_eq!((env["SERVICE_CPU"].as_str(), env["SERVICE_MEMORY"].as_str()), ("0.5", "64000000"));
}

#[test]
fn root_has_the_capabilities_of_the_node_unless_the_job_or_its_namespace_forbids_it() {
    let of_node = ["CHOWN", "SETUID"].map(str::to_owned);
    let added = |change: fn(&mut Work)| {
        let body = body(&run(change), &DockerParams::default(), &Facts::default(), None, &of_node);
        body.host_config.unwrap().cap_add
    };
    assert_eq!(added(|_| ()), Some(of_node.to_vec()));
    assert_eq!(added(|work| work.no_capabilities = true), None);
}

#[test]
fn a_task_has_no_network_but_that_of_its_sandbox() {
    let config_of = |network_type, sandbox| {
        let run = run(|work| work.task.network.network_type = network_type);
        body(&run, &DockerParams::default(), &Facts::default(), sandbox, &[]).host_config.unwrap()
    };
    for network_type in [NetworkType::None, NetworkType::Full, NetworkType::Http] {
        let config = config_of(network_type, Some("abc"));
        assert_eq!(config.network_mode.as_deref(), Some("container:abc"));
        assert_eq!((config.ipc_mode.as_deref(), config.pid_mode), (Some("private"), None));
        let config = config_of(network_type, None);
        assert_eq!(config.network_mode.as_deref(), Some("none"), "{network_type}");
    }
}

#[test]
fn limits_stay_within_the_engines_range() {
    let config = host_config_of(|work| {
        work.resources.cpu = 1_000_000.0;
        work.resources.memory = 1;
    });
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(config.nano_cpus, Some(i64::try_from(cores).unwrap() * 1_000_000_000));
    assert_eq!(config.memory, Some(6 << 20));
    let config = host_config_of(|work| {
        work.resources.cpu = 0.001;
        work.resources.memory = 0;
    });
    assert_eq!((config.nano_cpus, config.memory), (Some(10_000_000), None));
}

#[test]
fn the_service_s_own_variables_cannot_be_replaced() {
    let run = run(|work| {
        work.task.env = [("A", "task"), ("B", "task"), ("SERVICE_JOB_NAME", "mine")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
    });
    let params: DockerParams = serde_json::from_value(
        json!({"Image": "i", "EnvironmentVariables": ["B=engine=x", "C", "SERVICE_JOB_TYPE=mine"]}),
    )
    .unwrap();
    let env = env(&run, &params, &Facts::default());
    for (key, value) in [
        ("A", "task"),
        ("B", "engine=x"),
        ("C", ""),
        ("SERVICE_JOB_NAME", "count"),
        ("SERVICE_JOB_TYPE", "batch"),
    ] {
        assert_eq!(env[key], value, "{key}");
    }
    let body = body(&run, &params, &Facts::default(), None, &[]);
    assert_eq!((body.image.as_deref(), body.entrypoint, body.cmd), (Some("i"), None, None));
    assert_eq!(body.labels.unwrap()[LABEL_EXECUTION], run.id.to_string());
}

#[test]
fn result_directories_are_created_once() {
    let run = run(|work| {
        work.task.result_paths = ["/outputs/", "/outputs", "/a/b/file.txt", "/top.txt", "/a/b"]
            .map(|path| ResultPath { name: "x".to_owned(), path: path.to_owned() })
            .into();
    });
    let directories: Vec<_> = result_paths::directories(&run.work).into_iter().collect();
    assert_eq!(directories, ["/a/b", "/outputs"]);
    let of_root = directories.into_iter().map(|directory| (directory, Owner::default()));
    let tar = tar_of_directories(&of_root.collect::<Vec<_>>()).unwrap();
    let mut archive = tar::Archive::new(&tar[..]);
    let entries: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap())
        })
        .collect();
    assert_eq!(entries, [("a/b/".to_owned(), 0o1777), ("outputs/".to_owned(), 0o1777)]);
}

#[test]
fn the_gpus_of_an_execution_are_requested_by_id() {
    let mut run = run(|_| ());
    run.gpus = vec!["GPU-1".to_owned(), "3".to_owned()];
    let config =
        body(&run, &DockerParams::default(), &Facts::default(), None, &[]).host_config.unwrap();
    let [request] = config.device_requests.unwrap().try_into().unwrap();
    assert_eq!((request.device_ids, request.count), (Some(run.gpus), None));
    assert_eq!(request.capabilities, Some(vec![vec!["gpu".to_owned()]]));
}
