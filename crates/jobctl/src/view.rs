//! Records for people: columns, words and colours.

mod access;
mod demand;
mod describe;
mod dry_run;
mod event;
mod execution;
mod graph;
mod group;
mod history;
mod job;
mod member;
mod node;
mod schedule;
mod tone;
mod usage;

pub(crate) use access::{credential_fields, namespace_fields, secret_fields};
pub(crate) use describe::{execution_fields, failed_indexes, job_fields, node_fields};
pub(crate) use dry_run::DryRunRow;
pub(crate) use event::{EventNames, NumberedEvent};
pub(crate) use execution::ExecutionRow;
pub(crate) use graph::{GraphRow, graph_fields};
pub(crate) use group::group_text;
pub(crate) use history::{JobEvent, NodeEvent};
pub(crate) use schedule::schedule_fields;
pub(crate) use tone::job_tone;
pub(crate) use usage::Consumer;
