//! Quotas, which are part of the records of namespaces, and which the scheduler has to know.

use api_types::quota::Quota as Stated;
use scheduler::{Quota, Restore};
use serde::Deserialize;

use crate::records::{RecordKind, RecordWrite, Records};

/// Of the record of a namespace, what is read here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Bounded {
    quota: Stated,
}

/// The quotas of the namespaces among these.
pub(crate) fn changes(writes: &[RecordWrite]) -> Vec<(String, Quota)> {
    let of_namespaces = writes.iter().filter(|write| write.key.kind == RecordKind::Namespace);
    let change = |write: &RecordWrite| {
        let quota = write.value.as_deref().map(of_record).unwrap_or_default();
        (write.key.key.clone(), quota)
    };
    of_namespaces.map(change).collect()
}

/// Hands all quotas to a scheduler that is restored.
pub(crate) fn restore(restore: &mut Restore, records: &Records) {
    for record in records.of_kind(RecordKind::Namespace) {
        restore.quota(&record.key.key, of_record(&record.value));
    }
}

/// The quota in the record of a namespace; none if it cannot be read.
pub fn of_record(value: &str) -> Quota {
    let Bounded { quota } = serde_json::from_str(value).unwrap_or_default();
    let amounts = quota.amounts().unwrap_or_default();
    Quota {
        cpu_millis: amounts.cpu_millis,
        memory_bytes: amounts.memory_bytes,
        gpus: amounts.gpus,
        executions: quota.executions.map(u64::from),
        queued: quota.queued_executions.map(u64::from),
    }
}
