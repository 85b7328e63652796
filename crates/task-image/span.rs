//! Tasks that note when they start and end, in a file that they share.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

/// Adds a line at the start and another at the end, each in one piece, so that lines do not mix.
pub fn note(path: &str, name: &str, how_long: Duration) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(format!("+{name}\n").as_bytes())?;
    thread::sleep(how_long);
    file.write_all(format!("-{name}\n").as_bytes())
}
