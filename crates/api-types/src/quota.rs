//! Quotas: what the live work of a namespace may hold together, and what it holds.

use serde::{Deserialize, Serialize};

use crate::quantity::{self, InvalidQuantity};

/// The weight of a namespace that sets none.
pub const DEFAULT_WEIGHT: u32 = 1;

/// The highest weight: beyond it, a namespace of weight 1 would wait like one of a lower priority.
pub const MAX_WEIGHT: u32 = 1000;

/// Bounds of a namespace. What is absent has no bound.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct Quota {
    /// Cores, like `0.5`, `2` or `500m`.
    #[serde(rename = "CPU", skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Like `512MB` or `4GB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    #[serde(rename = "GPU", skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Live executions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executions: Option<u32>,
    /// Executions that are neither placed nor ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_executions: Option<u32>,
}

/// The same in whole units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    pub cpu_millis: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub gpus: Option<u64>,
}

/// What the live work of a namespace holds, whether or not it has a quota.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct NamespaceUsage {
    /// Cores, like `0.5`.
    #[serde(rename = "CPU")]
    pub cpu: String,
    /// Bytes.
    pub memory: u64,
    #[serde(rename = "GPU")]
    pub gpu: u64,
    pub executions: u64,
    pub queued_executions: u64,
    /// The largest part that it holds of a resource of all nodes in service, 0 to 1.
    pub share: f64,
}

// === impl Quota ===

impl Quota {
    pub fn is_unbounded(&self) -> bool {
        *self == Self::default()
    }

    /// The amounts, or the field that is none and why.
    pub fn amounts(&self) -> Result<Amounts, (&'static str, InvalidQuantity)> {
        let amount = |text: &Option<String>, path, parse: fn(&str) -> Result<u64, _>| {
            text.as_deref().map(parse).transpose().map_err(|error| (path, error))
        };
        Ok(Amounts {
            cpu_millis: amount(&self.cpu, "CPU", quantity::parse_cpu_millis)?,
            memory_bytes: amount(&self.memory, "Memory", quantity::parse_bytes)?,
            gpus: amount(&self.gpu, "GPU", quantity::parse_gpus)?,
        })
    }
}
