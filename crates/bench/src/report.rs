//! The results as Markdown and JSON.

use std::fmt::Write;

use serde::Serialize;

use super::measure::Measure;

/// One run of the bench.
#[derive(Debug, Serialize)]
pub struct Report {
    /// RFC 3339, UTC.
    pub date: String,
    pub machine: String,
    pub command: String,
    pub seconds: u64,
    pub measures: Vec<Measure>,
}

// === impl Report ===

impl Report {
    pub fn new(command: String, seconds: u64, measures: Vec<Measure>) -> Self {
        let date = orchestrator::clock::now().rfc3339();
        Self { date, machine: machine(), command, seconds, measures }
    }
}

/// Processor, cores, memory and kernel of this machine.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim());
        value.unwrap_or("unknown").to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = field(&read("/proc/cpuinfo"), "model name");
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{processor}, {cores} cores, {memory} of memory, Linux {}", kernel.trim())
}

/// The report as Markdown.
pub fn markdown(report: &Report) -> String {
    let mut text = format!(
        "- machine: {}\n- date: {}\n- command: `{}`, {} s\n\n",
        report.machine, report.date, report.command, report.seconds
    );
    text.push_str("| what | measured | target | met | context |\n|---|---|---|---|---|\n");
    for measure in &report.measures {
        let met = match measure.is_met() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "–",
        };
        let (what, figure) = (&measure.what, measure.figure());
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {what} | {figure} | {} | {met} | {} |",
            measure.target, measure.context
        );
    }
    text
}
