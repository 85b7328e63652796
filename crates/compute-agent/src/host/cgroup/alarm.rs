//! What the kernel says of a group that was out of memory, kept beyond the end of the group.
//!
//! On a busy machine the Engine may remove a group before this process gets to read its counters,
//! and then does not know either why its process was killed: its own reading came too late as well.
//!
//! Version 1 counts in an eventfd: one for each time that the group was out of memory, and one for
//! its end. Version 2 has nothing of the kind: a change of `memory.events` also says that pages were
//! reclaimed.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Pauses before the eventfd is read again: the kernel counts the end of the group a little later.
const END_PAUSES: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(100),
];

#[derive(Debug)]
pub(crate) struct MemoryAlarm(OwnedFd);

// === impl MemoryAlarm ===

impl MemoryAlarm {
    /// Of the group of version 1 whose directory this is.
    pub(super) fn set(memory: &Path) -> io::Result<Self> {
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let subject = File::open(memory.join("memory.oom_control"))?;
        let line = format!("{} {}", counter.as_raw_fd(), subject.as_raw_fd());
        fs::write(memory.join("cgroup.event_control"), line)?;
        Ok(Self(counter))
    }

    /// Whether the group, which is gone, was out of memory.
    pub(crate) async fn has_rung(&self) -> bool {
        let mut count = 0;
        for pause in END_PAUSES {
            tokio::time::sleep(pause).await;
            count += self.count().unwrap_or(0);
            if count > 1 {
                return true;
            }
        }
        false
    }

    /// What was counted since the last call.
    fn count(&self) -> rustix::io::Result<u64> {
        let mut count = [0; 8];
        match rustix::io::read(&self.0, &mut count) {
            Ok(_) => Ok(u64::from_ne_bytes(count)),
            Err(Errno::AGAIN) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::{Command, ExitStatus};

    use super::*;

    const LIMIT: &str = "8388608";

    /// A group of version 1, which is removed with this.
    struct Group(PathBuf);

    impl Group {
        /// None where this machine does not let us make one.
        fn make(name: &str) -> Option<Self> {
            let root = Path::new("/sys/fs/cgroup/memory");
            if !root.join("memory.oom_control").exists() {
                println!("skipped: this machine has no control groups of version 1");
                return None;
            }
            let path = root.join(format!("{name}-{}", std::process::id()));
            if let Err(error) = fs::create_dir(&path) {
                println!("skipped: cannot make a control group: {error}");
                return None;
            }
            let group = Self(path);
            fs::write(group.0.join("memory.limit_in_bytes"), LIMIT).unwrap();
            Some(group)
        }

        /// Runs a script in the group.
        fn run(&self, script: &str) -> ExitStatus {
            let enter = format!("echo $$ > {}/cgroup.procs; {script}", self.0.display());
            Command::new("sh").args(["-c", &enter]).status().unwrap()
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            if let Err(error) = fs::remove_dir(&self.0) {
                println!("{} stays: {error}", self.0.display());
            }
        }
    }

    #[tokio::test]
    async fn what_befell_a_group_is_known_when_it_is_gone() {
        let Some(group) = Group::make("agent-alarm") else { return };
        let alarm = MemoryAlarm::set(&group.0).unwrap();
        // There is no line to end its buffer.
        let ended = group.run("exec tail -n 1 /dev/zero");
        assert!(!ended.success(), "it has no room");
        drop(group);
        assert!(alarm.has_rung().await);
    }

    #[tokio::test]
    async fn the_end_of_a_group_alone_says_nothing() {
        let Some(group) = Group::make("agent-quiet") else { return };
        let alarm = MemoryAlarm::set(&group.0).unwrap();
        assert!(group.run("true").success());
        drop(group);
        assert!(!alarm.has_rung().await);
    }
}
