//! What an execution lacks of the quota of its namespace, in words.

use alloc::format;
use alloc::string::ToString as _;

use api_types::quantity::{Bytes, Millis, Resources};

use crate::demand::Need;
use crate::queue::quota::{QuotaUse, Quotas, Short};
use crate::text::Text;

/// What is held of the quota, and what another execution needs.
pub(crate) fn text(quotas: &Quotas, namespace: &str, short: Short, need: &Need) -> Text {
    let (quota, QuotaUse { held, executions, .. }) =
        (quotas.quota(namespace), quotas.used(namespace));
    let Resources { cpu_millis, memory_bytes, gpus, .. } = quotas.most_of(need);
    let says = |used: &str, most: &str, noun: &str, needed: &str, is_given: bool| {
        let up_to = if is_given { "" } else { "up to " };
        let default = if is_given { "" } else { ", the largest default of a node" };
        format!(
            "namespace '{namespace}' uses {used} of {most} {noun}; this needs {up_to}{needed}{default}"
        )
    };
    Text::from(match short {
        Short::Executions => {
            let most = quota.executions.unwrap_or_default();
            format!("{executions} of {most} executions of namespace '{namespace}' are live")
        }
        Short::Cpu => {
            let most = Millis(quota.cpu_millis.unwrap_or_default()).to_string();
            let (used, needed) =
                (Millis(held.cpu_millis).to_string(), Millis(cpu_millis).to_string());
            says(&used, &most, "CPU", &needed, need.cpu_millis.is_some())
        }
        Short::Memory => {
            let most = Bytes(quota.memory_bytes.unwrap_or_default()).to_string();
            let used = Bytes(held.memory_bytes).to_string();
            let needed = Bytes(memory_bytes).to_string();
            says(&used, &most, "memory", &needed, need.memory_bytes.is_some())
        }
        Short::Gpus => {
            let most = quota.gpus.unwrap_or_default().to_string();
            says(&held.gpus.to_string(), &most, "GPU", &gpus.to_string(), true)
        }
    })
}
