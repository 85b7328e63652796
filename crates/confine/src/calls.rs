//! Which system calls a confined process may make, by seccomp.
//!
//! All calls are allowed except those that reach other processes or kernel internals: programs like
//! `git` and their libraries are not written for a list of allowed calls.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::error::ConfineError;

/// Calls that no fetching or compiling needs.
const DENIED: [c_long; 48] = [
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_process_mrelease,
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

/// Calls whose first argument is a process: they are allowed for the caller itself, which is 0.
const OF_A_PROCESS: [c_long; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// In the number of a call of the x32 interface, which numbers every call differently: a filter that
/// compares numbers would let them all pass.
const X32_BIT: u32 = 0x4000_0000;

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
    for call in OF_A_PROCESS {
        let of_another = SeccompRule::new(vec![argument(SeccompCmpOp::Ne, 0)?])?;
        rules.insert(call, vec![of_another]);
    }
    seccompiler::apply_filter(&without_x32())?;
    apply(rules, libc::EPERM)?;
    // Its flags lie in memory, where a filter sees nothing; libraries go back to `clone`.
    apply(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

/// Denies every call of the x32 interface. The library of filters has no condition on the number of a
/// call, so this one is written out.
fn without_x32() -> BpfProgram {
    let step = |code: u32, k: u32| sock_filter {
        code: u16::try_from(code).expect("the code of an instruction has 16 bits"),
        jt: 0,
        jf: 0,
        k,
    };
    let errno = libc::EPERM.unsigned_abs();
    vec![
        // The number is the first field of what a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        sock_filter { jf: 1, ..step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, X32_BIT) },
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ]
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
