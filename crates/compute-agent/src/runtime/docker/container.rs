//! Translates a task into a container: its command, limits, mounts and restrictions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use api_types::engine::{DockerParams, NetworkType};
use api_types::quantity::{LEAST_CONTAINER, Resources};
use bollard::models::{
    ContainerConfig, ContainerCreateBody, DeviceRequest, HostConfig, HostConfigLogConfig, Mount,
    MountType,
};
use bytes::Bytes;

use super::{LABEL_EXECUTION, LABEL_JOB, LABEL_NETWORK, LABEL_NODE, LABEL_RESULTS, sandbox};
use crate::data::secrets::HandedOver;
use crate::runtime::{Run, environment, result_paths};

/// Threads and processes of one task. Far above the needs of ordinary programs, far below what
/// would exhaust the node's process ids.
const MAX_PIDS: i64 = 4096;

/// The size of each log file; when all files are full, the oldest output is lost. Without a limit
/// one task could fill the node's disk.
const LOG_FILE_BYTES: u64 = 256 << 20;
const LOG_FILES: u32 = 4;

/// The mode of a directory to which any user of the image can write without removing files of
/// others: without capabilities not even root bypasses the permission bits.
const RESULT_DIRECTORY_MODE: u32 = 0o1777;

/// `sandbox` is the container whose network namespace the task uses exclusively, if any.
pub(super) fn body(run: &Run, params: &DockerParams, sandbox: Option<&str>) -> ContainerCreateBody {
    let some = |list: &Vec<String>| (!list.is_empty()).then(|| list.clone());
    ContainerCreateBody {
        image: Some(params.image.clone()),
        entrypoint: some(&params.entrypoint),
        cmd: some(&params.parameters),
        working_dir: Some(params.working_directory.clone()).filter(|path| !path.is_empty()),
        env: Some(
            env(run, params).into_iter().map(|(key, value)| format!("{key}={value}")).collect(),
        ),
        labels: Some(labels(run)),
        host_config: Some(host_config(run, sandbox)),
        ..Default::default()
    }
}

/// A container with the same configuration, but another host configuration.
pub(super) fn again(config: ContainerConfig, host_config: HostConfig) -> ContainerCreateBody {
    ContainerCreateBody {
        image: config.image,
        entrypoint: config.entrypoint,
        cmd: config.cmd,
        working_dir: config.working_dir,
        env: config.env,
        labels: config.labels,
        host_config: Some(host_config),
        ..Default::default()
    }
}

/// The result directories of a container, from its labels.
pub(super) fn result_directories(body: &ContainerCreateBody) -> BTreeSet<String> {
    let label = body.labels.as_ref().and_then(|labels| labels.get(LABEL_RESULTS));
    label.and_then(|label| serde_json::from_str(label).ok()).unwrap_or_default()
}

/// Whether the task of a container has a network, from its labels.
pub(super) fn has_network(config: &ContainerConfig) -> bool {
    config.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_NETWORK))
}

fn labels(run: &Run) -> HashMap<String, String> {
    let mut labels = HashMap::from([
        (LABEL_EXECUTION.to_owned(), run.id.to_string()),
        (LABEL_JOB.to_owned(), run.work.job_id.to_string()),
        (LABEL_NODE.to_owned(), run.node_id.to_string()),
    ]);
    if run.work.task.network.network_type == NetworkType::Full {
        labels.insert(LABEL_NETWORK.to_owned(), NetworkType::Full.to_string());
    }
    let directories = result_paths::directories(&run.work);
    if !directories.is_empty() {
        labels.insert(LABEL_RESULTS.to_owned(), serde_json::json!(directories).to_string());
    }
    labels
}

/// The task's `Env`, then the engine's variables, then its secrets, then the service's own, which
/// take precedence.
fn env(run: &Run, params: &DockerParams) -> BTreeMap<String, String> {
    let mut env = run.work.task.env.clone();
    for variable in &params.environment_variables {
        let (key, value) = variable.split_once('=').unwrap_or((variable, ""));
        env.insert(key.to_owned(), value.to_owned());
    }
    let secrets = run.secrets.variables.iter();
    env.extend(secrets.map(|(name, value)| (name.clone(), value.as_str().to_owned())));
    env.extend(environment::of_service(run.id, run.node_id, &run.work));
    env
}

fn host_config(run: &Run, sandbox: Option<&str>) -> HostConfig {
    let resources = Resources::from(run.work.resources);
    let memory = (resources.memory_bytes > 0)
        .then(|| signed(resources.memory_bytes.max(LEAST_CONTAINER.memory_bytes)));
    HostConfig {
        nano_cpus: nano_cpus(resources.cpu_millis),
        memory,
        // Equal to the memory limit: no swap.
        memory_swap: memory,
        pids_limit: Some(MAX_PIDS),
        // An Engine without a GPU driver refuses the container, which is the right error for the
        // user.
        device_requests: (!run.gpus.is_empty()).then(|| vec![gpus(&run.gpus)]),
        // Without a sandbox there is no network, whatever the task asks for.
        network_mode: Some(match sandbox {
            Some(sandbox) => format!("{}{sandbox}", sandbox::JOINS),
            None => "none".to_owned(),
        }),
        // The Engine's default may be configured to `shareable`.
        ipc_mode: Some("private".to_owned()),
        mounts: Some(run.inputs.iter().map(mount).chain(secrets(&run.secrets)).collect()),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        // As process 1 most programs would ignore SIGTERM and leave zombies; the Engine's init
        // forwards signals and reaps children.
        init: Some(true),
        log_config: Some(HostConfigLogConfig {
            typ: Some("local".to_owned()),
            config: Some(HashMap::from([
                ("max-size".to_owned(), LOG_FILE_BYTES.to_string()),
                ("max-file".to_owned(), LOG_FILES.to_string()),
                // Read once and removed: compression would only cost time.
                ("compress".to_owned(), "false".to_owned()),
            ])),
        }),
        ..Default::default()
    }
}

/// The Engine refuses more than the machine has, which a configured capacity may exceed.
fn nano_cpus(cpu_millis: u64) -> Option<i64> {
    let machine = std::thread::available_parallelism()
        .map_or(u64::MAX, |cores| (cores.get() as u64).saturating_mul(1000));
    (cpu_millis > 0).then(|| {
        signed(cpu_millis.clamp(LEAST_CONTAINER.cpu_millis, machine).saturating_mul(1_000_000))
    })
}

fn mount(input: &crate::data::inputs::placement::MountedInput) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(input.source.to_string_lossy().into_owned()),
        target: Some(input.target.clone()),
        read_only: Some(!input.writable),
        ..Default::default()
    }
}

/// One mount for each file.
fn secrets(handed_over: &HandedOver) -> impl Iterator<Item = Mount> {
    handed_over.paths.iter().map(|path| Mount {
        typ: Some(MountType::BIND),
        source: Some(handed_over.on_node(path).to_string_lossy().into_owned()),
        target: Some(path.clone()),
        read_only: Some(true),
        ..Default::default()
    })
}

fn gpus(ids: &[String]) -> DeviceRequest {
    DeviceRequest {
        device_ids: Some(ids.to_vec()),
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        ..Default::default()
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A tar that unpacks these directories at the root.
pub(super) fn tar_of_directories(directories: &[String]) -> std::io::Result<Bytes> {
    let mut tar = tar::Builder::new(Vec::new());
    for directory in directories {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(RESULT_DIRECTORY_MODE);
        header.set_size(0);
        let name = format!("{}/", directory.trim_start_matches('/'));
        tar.append_data(&mut header, name, std::io::empty())?;
    }
    tar.into_inner().map(Bytes::from)
}

#[cfg(test)]
mod tests;
