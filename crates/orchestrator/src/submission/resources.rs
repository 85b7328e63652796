//! What a task requests of a node; people write it as `Resources` or as `ResourcesConfig`.

use api_types::job::TaskResources;
use api_types::quantity::{self, Bytes, LEAST_CONTAINER};
use api_types::submission::ResourcesSubmission;

use super::findings::Findings;

pub(super) fn check(
    resources: Option<ResourcesSubmission>,
    config: Option<ResourcesSubmission>,
    findings: &mut Findings,
) -> TaskResources {
    let (place, submitted) = match (resources, config) {
        (Some(resources), Some(config)) => {
            if plain(&resources) != plain(&config) {
                findings.refuse(
                    "Tasks[0].ResourcesConfig",
                    "differs from Resources; give one of them, or the same in both",
                );
            }
            ("Tasks[0].Resources", resources)
        }
        (Some(resources), None) => ("Tasks[0].Resources", resources),
        (None, Some(config)) => ("Tasks[0].ResourcesConfig", config),
        (None, None) => return TaskResources::default(),
    };
    let requested = plain(&submitted);
    let mut amount = |field: &str, text: &str, parse: Parse, zero: Zero| {
        if text.is_empty() {
            return;
        }
        let path = format!("{place}.{field}");
        match (findings.take(&path, parse(text)), zero) {
            (Some(0), Zero::Refused) => {
                findings.refuse(path, "must be more than zero; leave it out for the default");
            }
            (_, Zero::Refused | Zero::Taken) => {}
        }
    };
    amount("CPU", &requested.cpu, quantity::parse_cpu_millis, Zero::Refused);
    amount("Memory", &requested.memory, quantity::parse_bytes, Zero::Refused);
    amount("Disk", &requested.disk, quantity::parse_bytes, Zero::Taken);
    amount("GPU", &requested.gpu, quantity::parse_gpus, Zero::Taken);
    for (field, text) in [("Memory", &requested.memory), ("Disk", &requested.disk)] {
        warn_of_bytes(field, text, findings);
    }
    requested
}

/// Warns of an amount that is probably meant in megabytes: without a unit, numbers are bytes.
fn warn_of_bytes(field: &str, text: &str, findings: &mut Findings) {
    let Ok(bytes @ 1..) = text.parse::<u64>() else { return };
    if bytes >= LEAST_CONTAINER.memory_bytes {
        return;
    }
    let least = match field {
        "Memory" => {
            format!(", and a container gets at least {}", Bytes(LEAST_CONTAINER.memory_bytes))
        }
        _ => String::new(),
    };
    findings
        .warn(format!("{field} {bytes} is {bytes} bytes{least}; write '{bytes}MB' for megabytes"));
}

type Parse = fn(&str) -> Result<u64, quantity::InvalidQuantity>;

/// Whether zero is accepted. Container engines read zero CPU or memory as "no limit", the opposite.
#[derive(Clone, Copy)]
enum Zero {
    Refused,
    Taken,
}

fn plain(submitted: &ResourcesSubmission) -> TaskResources {
    let text =
        |field: &Option<String>| field.as_deref().map(str::trim).unwrap_or_default().to_owned();
    TaskResources {
        cpu: text(&submitted.cpu),
        memory: text(&submitted.memory),
        disk: text(&submitted.disk),
        gpu: text(&submitted.gpu),
    }
}
