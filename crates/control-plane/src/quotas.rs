//! Quotas and weights, which are part of the records of namespaces, and which the scheduler has to know.

use api_types::quota::{DEFAULT_WEIGHT, Quota as Stated};
use scheduler::{Entitlement, Quota, Restore};
use serde::Deserialize;

use crate::records::{RecordKind, RecordWrite, Records};

/// Of the record of a namespace, what is read here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Bounded {
    quota: Stated,
    weight: Option<u32>,
}

/// What the namespaces among these are entitled to.
pub(crate) fn changes(writes: &[RecordWrite]) -> Vec<(String, Entitlement)> {
    let of_namespaces = writes.iter().filter(|write| write.key.kind == RecordKind::Namespace);
    let change = |write: &RecordWrite| {
        let entitled = write.value.as_deref().map(of_record).unwrap_or_default();
        (write.key.key.clone(), entitled)
    };
    of_namespaces.map(change).collect()
}

/// Hands all quotas and weights to a scheduler that is restored.
pub(crate) fn restore(restore: &mut Restore, records: &Records) {
    for record in records.of_kind(RecordKind::Namespace) {
        restore.entitle(&record.key.key, of_record(&record.value));
    }
}

/// What the record of a namespace entitles it to; to the usual if it cannot be read.
pub fn of_record(value: &str) -> Entitlement {
    let Bounded { quota, weight } = serde_json::from_str(value).unwrap_or_default();
    let amounts = quota.amounts().unwrap_or_default();
    let quota = Quota {
        cpu_millis: amounts.cpu_millis,
        memory_bytes: amounts.memory_bytes,
        gpus: amounts.gpus,
        executions: quota.executions.map(u64::from),
        queued: quota.queued_executions.map(u64::from),
    };
    Entitlement { quota, weight: weight.unwrap_or(DEFAULT_WEIGHT).into() }
}
