//! What executions use, in a list and in words.

use std::time::Duration;

use api_types::execution::Execution;
use api_types::quantity::{Bytes, Capacity};
use api_types::usage::Usage;
use serde::Serialize;

use crate::output::{Cell, Layout, Listed, age};

/// Shown where nothing was measured.
const UNKNOWN: &str = "-";

/// A running execution, by what it uses, with the name of its node.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Consumer {
    pub(crate) execution: Execution,
    #[serde(skip)]
    pub(crate) node: String,
}

impl Listed for Consumer {
    const NOUN: &'static str = "running executions";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        let mut columns =
            vec!["ID", "NAME", "NODE", "CPU", "CPU%", "MEMORY", "MEM%", "PEAK", "CPU-TIME", "AGE"];
        if layout.wide {
            columns.extend(["DISK", "JOB", "NAMESPACE"]);
        }
        columns
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let Self { execution, node } = self;
        let usage = execution.usage.unwrap_or_default();
        let held = held(execution);
        let id = if layout.wide { execution.id.to_string() } else { execution.id.short() };
        let mut cells = vec![
            Cell::plain(id),
            Cell::plain(&execution.name),
            Cell::plain(node),
            Cell::plain(millicores(usage.cpu)),
            Cell::plain(share(usage.cpu, held.cpu)),
            Cell::plain(Bytes(usage.memory).to_string()),
            Cell::plain(share(usage.memory as f64, held.memory as f64)),
            Cell::plain(Bytes(usage.memory_peak).to_string()),
            Cell::plain(cpu_time(usage.cpu_seconds)),
            Cell::age(age(layout.now, execution.create_time)),
        ];
        if layout.wide {
            cells.push(Cell::plain(disk(&usage)));
            cells.push(Cell::plain(execution.job_id.to_string()));
            cells.push(Cell::plain(&execution.namespace));
        }
        cells
    }

    fn name(&self) -> String {
        self.execution.id.to_string()
    }
}

/// `490m`: a task that does next to nothing uses more than 0.00 cores.
fn millicores(cores: f64) -> String {
    format!("{:.0}m", 1000.0 * cores)
}

/// What is reserved for the tasks of an execution.
fn held(execution: &Execution) -> Capacity {
    let tasks = execution.allocated_resources.tasks.values();
    tasks.fold(Capacity::default(), |all, task| Capacity {
        cpu: all.cpu + task.cpu,
        memory: all.memory.saturating_add(task.memory),
        ..all
    })
}

/// A whole percentage; of no limit there is none.
fn share(used: f64, limit: f64) -> String {
    if limit > 0.0 { format!("{:.0}%", 100.0 * used / limit) } else { UNKNOWN.to_owned() }
}

/// `0.25s`, `12.5s`, `3m20s`, `5h03m`.
pub(super) fn cpu_time(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    match whole {
        0..10 => format!("{seconds:.2}s"),
        10..60 => format!("{seconds:.1}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
    }
}

fn disk(usage: &Usage) -> String {
    usage.disk.map_or_else(|| UNKNOWN.to_owned(), |bytes| Bytes(bytes).to_string())
}

/// The cells `CPU-TIME` and `PEAK` of a list of executions.
pub(super) fn totals(usage: Option<&Usage>) -> [Cell; 2] {
    let text = |of: fn(&Usage) -> String| usage.map_or_else(|| UNKNOWN.to_owned(), of);
    [
        Cell::plain(text(|usage| cpu_time(usage.cpu_seconds))),
        Cell::plain(text(|usage| Bytes(usage.memory_peak).to_string())),
    ]
}

/// One line: `12.5s of CPU (0.48 cores now), 40 MB of memory (peak 52 MB of 64 MB), 1 MB on disk`.
pub(super) fn words(execution: &Execution) -> String {
    let Some(usage) = &execution.usage else { return String::new() };
    let held = held(execution);
    let is_over = execution.compute_state.state_type.is_terminal();
    let mut text = format!("{} of CPU", cpu_time(usage.cpu_seconds));
    if !is_over {
        text.push_str(&format!(" ({:.2} cores now)", usage.cpu));
    }
    let limit = match held.memory {
        0 => String::new(),
        limit => format!(" of {}", Bytes(limit)),
    };
    let peak = format!("peak {}{limit}", Bytes(usage.memory_peak));
    if is_over {
        text.push_str(&format!(", memory {peak}"));
    } else {
        text.push_str(&format!(", {} of memory ({peak})", Bytes(usage.memory)));
    }
    if let Some(bytes) = usage.disk {
        text.push_str(&format!(", {} on disk", Bytes(bytes)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_precise_as_they_are_short() {
        for (seconds, text) in
            [(0.254, "0.25s"), (12.54, "12.5s"), (200.0, "3m20s"), (18_200.0, "5h03m")]
        {
            assert_eq!(cpu_time(seconds), text);
        }
    }

    #[test]
    fn little_cpu_is_not_none() {
        assert_eq!(millicores(0.0021), "2m");
        assert_eq!(millicores(12.5), "12500m");
    }

    #[test]
    fn a_share_needs_a_limit() {
        assert_eq!(share(0.25, 0.5), "50%");
        assert_eq!(share(3.0, 2.0), "150%");
        assert_eq!(share(1.0, 0.0), "-");
    }
}
