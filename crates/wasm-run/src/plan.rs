//! What a runner executes: code, arguments, files and limits.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Everything a run needs. Relative paths are below the run directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The compiled module whose `entry_point` is called.
    pub entry: PathBuf,
    pub entry_point: String,
    /// In the order of instantiation; a later one may import from an earlier one.
    pub imports: Vec<Import>,
    /// Including argument 0.
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// A file with further variables, as a JSON object; absolute, in memory, and not in the plan
    /// because that is on a disk.
    #[serde(default)]
    pub secret_environment: Option<PathBuf>,
    pub files: Vec<Preopen>,
    /// 0 for no limit.
    pub memory_bytes: u64,
    /// Thousandths of a core; 0 for no limit.
    pub cpu_millis: u64,
    /// The kernel ends the run after this much CPU time; none for no limit.
    pub cpu_time_seconds: Option<u64>,
}

/// A compiled module, and the name by which others import it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    pub name: String,
    pub code: PathBuf,
}

/// A directory, and the name under which the program sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preopen {
    pub host: PathBuf,
    pub guest: String,
    pub writable: bool,
}

// === impl Plan ===

impl Plan {
    pub fn path(directory: &Path) -> PathBuf {
        directory.join("plan.json")
    }

    /// Written in place: the agent starts no runner before this returns.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        fs::write(Self::path(directory), serde_json::to_vec(self)?)
    }

    pub fn read(directory: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(Self::path(directory))?)?)
    }

    /// All variables of the program; those in the plan take precedence.
    pub fn variables(&self) -> io::Result<BTreeMap<String, String>> {
        let mut variables: BTreeMap<String, String> = match &self.secret_environment {
            Some(file) => serde_json::from_slice(&fs::read(file)?)?,
            None => BTreeMap::new(),
        };
        variables.extend(self.environment.iter().cloned());
        Ok(variables)
    }
}
