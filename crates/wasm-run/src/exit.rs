//! How a run ended, in a file that appears only when it is complete and synced.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The end of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: i32,
    /// The program was refused memory beyond its limit.
    pub out_of_memory: bool,
    /// The cause of the end when the program did not exit by itself.
    #[serde(default)]
    pub fault: Option<String>,
    /// None if the run ended before it was measured.
    #[serde(default)]
    pub used: Option<Used>,
}

/// What the process of a run has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    pub cpu_nanos: u64,
    /// In use, without the pages that are read from files.
    pub memory_bytes: u64,
    pub memory_peak_bytes: u64,
}

// === impl Exit ===

impl Exit {
    /// Writes and syncs it under another name, then renames it into place.
    ///
    /// The rename itself is not synced: after a crash of the machine the file is either there
    /// with its whole content or not there, and then the run counts as lost.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let temporary = directory.join("exit.json.new");
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_data()?;
        fs::rename(temporary, directory.join("exit.json"))
    }

    /// None when the run has not ended.
    pub fn read(directory: &Path) -> io::Result<Option<Self>> {
        match fs::read(directory.join("exit.json")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
