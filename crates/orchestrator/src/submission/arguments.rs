//! What the kernel accepts as arguments and variables of a program.
//!
//! `execve` refuses more than 32 pages for one string (`MAX_ARG_STRLEN`), and in all more than a
//! quarter of the stack's limit, which is 8 MiB wherever it was not changed (`execve(2)`, "Limits
//! on size of arguments and environment"). Every string costs its terminating NUL and a pointer.

use std::collections::BTreeMap;

use api_types::engine::{DockerParams, EngineSpec, EngineType};

use super::findings::Findings;

/// Bytes of one argument, or of one variable with its name and `=`: 32 pages of 4 KiB with a NUL.
const MAX_STRING_BYTES: usize = 32 * 4096 - 1;

/// Bytes of everything that the job says. The image's own variables, those of the service and the
/// Engine's init have the rest of the 2 MiB.
const MAX_TOTAL_BYTES: usize = (2 << 20) - RESERVED_BYTES;
const RESERVED_BYTES: usize = 64 << 10;

/// Where the job says them.
const PARAMS: &str = "Tasks[0].Engine.Params";
const ENV: &str = "Tasks[0].Env";

/// The terminating NUL and the pointer of each string.
const STRING_OVERHEAD_BYTES: usize = 1 + 8;

/// Only a container's program gets them from the kernel.
pub(super) fn check(
    engine: Option<&EngineSpec>,
    env: &BTreeMap<String, String>,
    findings: &mut Findings,
) {
    let Some(engine) = engine.filter(|engine| engine.engine_type == EngineType::Docker) else {
        return;
    };
    // Params that cannot be read are refused elsewhere.
    let params = serde_json::from_value(engine.params.clone().into());
    let params: DockerParams = params.unwrap_or_default();
    let mut total_bytes = 0_usize;
    let mut take = |bytes: usize, path: &dyn Fn() -> String| {
        total_bytes = total_bytes.saturating_add(bytes + STRING_OVERHEAD_BYTES);
        if bytes > MAX_STRING_BYTES {
            let reason = format!(
                "must not be longer than {MAX_STRING_BYTES} bytes, the most that the kernel takes \
                 as one argument or variable; put it into an input"
            );
            findings.refuse(path(), reason);
        }
    };
    for (field, list) in [
        ("Entrypoint", &params.entrypoint),
        ("Parameters", &params.parameters),
        ("EnvironmentVariables", &params.environment_variables),
    ] {
        for (index, text) in list.iter().enumerate() {
            take(text.len(), &|| format!("{PARAMS}.{field}[{index}]"));
        }
    }
    for (key, value) in env {
        take(key.len() + "=".len() + value.len(), &|| format!("{ENV}.{key}"));
    }
    if total_bytes > MAX_TOTAL_BYTES {
        let reason = format!(
            "the arguments and variables of the task are {total_bytes} bytes, and the kernel takes \
             no more than {MAX_TOTAL_BYTES} of a job; put them into an input"
        );
        findings.refuse(PARAMS, reason);
    }
}
