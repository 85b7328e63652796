//! What is kept of a task in its directory, for an agent that continues.

use std::fs;
use std::io;
use std::path::Path;

use api_types::curve::UsageCurve;
use api_types::usage::Usage;
use serde::{Deserialize, Serialize};

use super::recorder::Recorder;
use crate::host::data_dir::ExecutionDir;

/// What is kept of a task in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct UsageRecord {
    #[serde(flatten)]
    pub(super) usage: Usage,
    #[serde(rename = "Curve", default, skip_serializing_if = "Option::is_none")]
    pub(super) curve: Option<UsageCurve>,
}

/// What an earlier agent kept, if it is whole.
pub(super) fn read(dir: &ExecutionDir) -> Option<UsageRecord> {
    serde_json::from_slice(&fs::read(dir.usage()).ok()?).ok()
}

pub(super) fn write(dir: &ExecutionDir, kept: &UsageRecord) -> io::Result<()> {
    dir.create()?;
    replace(&dir.usage(), &serde_json::to_vec(kept)?)
}

pub(super) fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(new, file)
}

// === impl UsageRecord ===

impl UsageRecord {
    pub(super) fn recorder(&self) -> Option<Recorder> {
        Recorder::resume(self.curve.as_ref()?, self.usage.cpu_seconds)
    }
}
