//! Translates a task into a container: its command, limits, mounts and restrictions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use api_types::engine::{DockerParams, NetworkType};
use api_types::quantity::{LEAST_CONTAINER, Resources};
use bollard::models::{
    ContainerConfig, ContainerCreateBody, DeviceRequest, HostConfig, HostConfigLogConfig, Mount,
    MountType,
};
use bytes::Bytes;

use super::image::Facts;
use super::labels::{LABEL_EXECUTION, LABEL_JOB, LABEL_NETWORK, LABEL_NODE, LABEL_RESULTS};
use super::{remarks, sandbox, targets};
use crate::data::secrets::ExecutionSecrets;
use crate::runtime::{Run, capabilities, environment, result_paths};

/// The size of `/dev/shm` of a task without a limit of memory, which is also the Engine's default.
const UNLIMITED_SHM_BYTES: i64 = 64 << 20;

/// Threads and processes of one task. Far above the needs of ordinary programs, far below what
/// would exhaust the node's process ids.
const MAX_PIDS: i64 = 4096;

/// The Engine's own log files of a task; when all are full, it drops the oldest.
const LOG_FILES: u64 = 5;

/// The most that they hold together. Without a limit one task could fill the node's disk.
const LOG_BYTES: u64 = 1 << 30;

/// The least that each of them holds, so that a task with little disk can print a few lines.
const LEAST_LOG_FILE_BYTES: u64 = 64 << 10;

/// What the `local` driver writes for each line, or part of a long one, in addition to its bytes.
pub(super) const LOG_ENTRY_BYTES: u64 = 32;

/// The mode of a directory to which any user of the image can write without removing files of
/// others: where it has no capabilities, not even root bypasses the permission bits.
const RESULT_DIRECTORY_MODE: u32 = 0o1777;

/// User and group of a directory, as numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) user: u64,
    pub(super) group: u64,
}

/// `sandbox` is the container whose network namespace the task uses exclusively, if any;
/// `capabilities` are those that the node gives to tasks.
pub(super) fn body(
    run: &Run,
    params: &DockerParams,
    image: &Facts,
    sandbox: Option<&str>,
    capabilities: &[String],
) -> ContainerCreateBody {
    let some = |list: &Vec<String>| (!list.is_empty()).then(|| list.clone());
    ContainerCreateBody {
        image: Some(params.image.clone()),
        entrypoint: some(&params.entrypoint).filter(|words| *words != [""]),
        cmd: some(&params.parameters),
        working_dir: Some(params.working_directory.clone()).filter(|path| !path.is_empty()),
        env: Some(
            env(run, params, image)
                .into_iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect(),
        ),
        labels: Some(labels(run, image)),
        host_config: Some(host_config(run, sandbox, capabilities)),
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

fn labels(run: &Run, image: &Facts) -> HashMap<String, String> {
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
    let files = targets::of_files(run);
    if !files.is_empty() {
        labels.insert(targets::LABEL_FILES.to_owned(), serde_json::json!(files).to_string());
    }
    labels.extend(image.remark().map(|remark| (remarks::LABEL.to_owned(), remark)));
    labels
}

/// The number of threads unless the image sets it, then the task's `Env`, then the engine's
/// variables, then its secrets, then the service's own, which take precedence.
fn env(run: &Run, params: &DockerParams, image: &Facts) -> BTreeMap<String, String> {
    let threads = environment::of_threads(&run.work).filter(|(name, _)| !image.sets(name));
    let mut env: BTreeMap<_, _> = threads.map(|(name, value)| (name.to_owned(), value)).collect();
    env.extend(run.work.task.env.clone());
    for variable in &params.environment_variables {
        let (key, value) = variable.split_once('=').unwrap_or((variable, ""));
        env.insert(key.to_owned(), value.to_owned());
    }
    let secrets = run.secrets.variables.iter();
    env.extend(secrets.map(|(name, value)| (name.clone(), value.as_str().to_owned())));
    env.extend(environment::of_service(run.id, run.node_id, &run.work));
    env
}

/// What the node provides for a container, whatever runs in it.
pub(super) struct Frame<'a> {
    pub(super) resources: Resources,
    pub(super) gpus: &'a [String],
    pub(super) sandbox: Option<&'a str>,
    pub(super) mounts: Vec<Mount>,
    /// Of root in the container.
    pub(super) capabilities: &'a [String],
}

// === impl Frame ===

impl Frame<'_> {
    /// The same for a task and its twin.
    pub(super) fn host_config(self) -> HostConfig {
        let Self { resources, gpus: ids, sandbox, mounts, capabilities } = self;
        let memory = (resources.memory_bytes > 0)
            .then(|| signed(resources.memory_bytes.max(LEAST_CONTAINER.memory_bytes)));
        HostConfig {
            nano_cpus: nano_cpus(resources.cpu_millis),
            memory,
            // Equal to the memory limit: no swap.
            memory_swap: memory,
            // What is in it counts towards the limit.
            shm_size: Some(memory.unwrap_or(UNLIMITED_SHM_BYTES)),
            pids_limit: Some(MAX_PIDS),
            // An Engine without a GPU driver refuses the container, which is the right error for
            // the user.
            device_requests: (!ids.is_empty()).then(|| vec![gpus(ids)]),
            // Without a sandbox there is no network, whatever the task asks for.
            network_mode: Some(match sandbox {
                Some(sandbox) => format!("{}{sandbox}", sandbox::JOINS),
                None => "none".to_owned(),
            }),
            // The Engine's default may be configured to `shareable`.
            ipc_mode: Some("private".to_owned()),
            mounts: Some(mounts),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: (!capabilities.is_empty()).then(|| capabilities.to_vec()),
            // As process 1 most programs would ignore SIGTERM and leave zombies; the Engine's init
            // forwards signals and reaps children.
            init: Some(true),
            log_config: Some(HostConfigLogConfig {
                typ: Some("local".to_owned()),
                config: Some(HashMap::from([
                    ("max-size".to_owned(), log_file_bytes(resources.disk_bytes).to_string()),
                    ("max-file".to_owned(), LOG_FILES.to_string()),
                    // Read once and removed: compression would only cost time.
                    ("compress".to_owned(), "false".to_owned()),
                ])),
            }),
            ..Default::default()
        }
    }
}

fn host_config(run: &Run, sandbox: Option<&str>, capabilities: &[String]) -> HostConfig {
    let frame = Frame {
        resources: Resources::from(run.work.resources),
        gpus: &run.gpus,
        sandbox,
        mounts: run.inputs.iter().map(mount).chain(secrets(&run.secrets)).collect(),
        capabilities: if capabilities::has_some(&run.work) { capabilities } else { &[] },
    };
    frame.host_config()
}

/// The size of each log file of a task that may write this much, 0 for no limit.
///
/// All but one hold its whole limit, and a little more than the driver adds to long lines: the Engine
/// drops output only of a task that has printed too much, so that one which does so and ends before
/// its output is copied fails nevertheless.
fn log_file_bytes(disk_bytes: u64) -> u64 {
    const LONG_LINES: u64 = 64;
    let file_bytes = match disk_bytes {
        0 => LOG_BYTES / LOG_FILES,
        bytes => bytes.saturating_add(bytes / LONG_LINES).div_ceil(LOG_FILES - 1),
    };
    file_bytes.clamp(LEAST_LOG_FILE_BYTES, LOG_BYTES / LOG_FILES)
}

/// The Engine refuses more than the machine has.
fn nano_cpus(cpu_millis: u64) -> Option<i64> {
    let machine = environment::machine_millis();
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
fn secrets(handed_over: &ExecutionSecrets) -> impl Iterator<Item = Mount> {
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

/// A tar that unpacks these directories at the root, or changes those that exist.
pub(super) fn tar_of_directories(directories: &[(String, Owner)]) -> std::io::Result<Bytes> {
    let mut tar = tar::Builder::new(Vec::new());
    for (directory, owner) in directories {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(RESULT_DIRECTORY_MODE);
        header.set_uid(owner.user);
        header.set_gid(owner.group);
        header.set_size(0);
        let name = format!("{}/", directory.trim_start_matches('/'));
        tar.append_data(&mut header, name, std::io::empty())?;
    }
    tar.into_inner().map(Bytes::from)
}

#[cfg(test)]
mod tests;
