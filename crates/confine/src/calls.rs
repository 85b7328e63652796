//! Which system calls a confined process may make, by seccomp.
//!
//! All calls are allowed except those that reach other processes or kernel internals: programs like
//! `git` and their libraries are not written for a list of allowed calls.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::ConfineError;

/// Calls that no fetching or compiling needs.
const DENIED: [c_long; 45] = [
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Leaving the group by which its parent ends it.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Files by handles pass by the rules for paths.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Rings make calls that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The kernel's inner parts.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_quotactl,
    libc::SYS_personality,
];

/// Namespaces that a new process could get.
const NEW_NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

pub(crate) fn restrict(network: bool) -> Result<(), ConfineError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        DENIED.iter().map(|call| (*call, Vec::new())).collect();
    // Routing sockets answer questions about addresses.
    let families: &[libc::c_int] = match network {
        true => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        false => &[],
    };
    let other_family = families.iter().map(|family| argument(SeccompCmpOp::Ne, *family));
    rules.insert(libc::SYS_socket, all_of(other_family.collect::<Result<_, _>>()?)?);
    let namespaces = NEW_NAMESPACES.iter().map(|flag| {
        let bits = u64::from(flag.unsigned_abs());
        SeccompRule::new(vec![argument(SeccompCmpOp::MaskedEq(bits), *flag)?])
    });
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    apply(rules, libc::EPERM)?;
    // Its flags lie in memory, where a filter sees nothing; libraries go back to `clone`.
    apply(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

/// A condition on the first argument.
fn argument(
    operator: SeccompCmpOp,
    value: libc::c_int,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, u64::from(value.unsigned_abs()))
}

/// One rule of several conditions; without any, the call is denied altogether.
fn all_of(
    conditions: Vec<SeccompCondition>,
) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    match conditions.is_empty() {
        true => Ok(Vec::new()),
        false => Ok(vec![SeccompRule::new(conditions)?]),
    }
}

fn apply(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    errno: libc::c_int,
) -> Result<(), ConfineError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.unsigned_abs()),
        arch,
    )?;
    let program = BpfProgram::try_from(filter)?;
    Ok(seccompiler::apply_filter(&program)?)
}
