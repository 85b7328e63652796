//! This machine and this process: devices, disk, clock, directories, settings.

pub(crate) mod backoff;
pub(crate) mod cgroup;
pub(crate) mod clock;
pub(crate) mod data_dir;
pub(crate) mod device;
pub(crate) mod disk;
pub(crate) mod gpu;
pub(crate) mod identity;
pub(crate) mod mint;
pub(crate) mod pidfd;
pub(crate) mod secrets_dir;
pub mod settings;
pub(crate) mod tree;
