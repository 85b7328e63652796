//! Why a process could not be confined.

#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    #[error("this kernel has no Landlock; allow_unconfined = true does without")]
    Unsupported,
    #[error("confine the process to its files")]
    Files(#[from] landlock::RulesetError),
    #[error("open a path for the rules of the confinement")]
    Path(#[from] landlock::PathFdError),
    #[error("make the filter of system calls")]
    Filter(#[from] seccompiler::BackendError),
    #[error("apply the filter of system calls")]
    Calls(#[from] seccompiler::Error),
    #[error("limit the process")]
    Limits(#[from] rustix::io::Errno),
}
