//! The statistics of a run, or its failure.

use std::fmt;

/// A violated guarantee, and the seed that reproduces it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: {what}")]
pub struct Failure {
    pub seed: u64,
    pub what: String,
}

/// Statistics of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub steps: u64,
    pub jobs: usize,
    pub executions: usize,
    pub orchestrator_crashes: u64,
    pub agent_crashes: u64,
    pub agent_reboots: u64,
    pub lost_messages: u64,
    pub clock_steps: u64,
    pub machine_restarts: u64,
    /// Periods in which the orchestrator's disk was full.
    pub full_disks: u64,
    /// Processes that took the store over from another.
    pub takeovers: u64,
    /// Processes that noticed it.
    pub deposed: u64,
    /// Promotions of the standby of a shared database, and those that lost acknowledged commits.
    pub promotions: u64,
    pub losses: u64,
    /// Commits that reached the disk after their process was told that the store does not answer.
    pub late_commits: u64,
    /// Commits for which the disk took some seconds.
    pub slow_commits: u64,
    pub crowds: u64,
    /// Runs in which jobs that had ended ran again.
    pub reruns: u64,
    /// Runs in which one node broke among others.
    pub broken_nodes: u64,
    /// Runs in which one node among others could not pull.
    pub lost_registries: u64,
    /// Runs in which a node fell silent during a long run.
    pub long_runs: u64,
    pub mass_silences: u64,
    /// Runs in which an agent's ledger was full for longer than a lease.
    pub full_ledgers: u64,
    /// Runs in which the operator shortened the lease.
    pub changed_leases: u64,
    pub rejected_nodes: u64,
    /// Agents that started while their node was forgotten.
    pub forgotten_nodes: u64,
    /// Executions that were given up because their node was silent.
    pub given_up: u64,
    /// Runs whose results could not be published.
    pub unpublished: u64,
    /// Executions whose secret did not exist.
    pub missing_secrets: u64,
    /// Runs in which one node among others lost the network of its containers.
    pub lost_networks: u64,
    /// Runs in which one node among others had a damaged image.
    pub damaged_images: u64,
    /// Runs with an array whose container no node could create.
    pub refused_arrays: u64,
    /// Runs in which the jobs of one namespace failed everywhere.
    pub hostile_namespaces: u64,
    pub shared_clusters: u64,
}

impl Summary {
    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            jobs: self.jobs + other.jobs,
            executions: self.executions + other.executions,
            orchestrator_crashes: self.orchestrator_crashes + other.orchestrator_crashes,
            agent_crashes: self.agent_crashes + other.agent_crashes,
            agent_reboots: self.agent_reboots + other.agent_reboots,
            lost_messages: self.lost_messages + other.lost_messages,
            clock_steps: self.clock_steps + other.clock_steps,
            machine_restarts: self.machine_restarts + other.machine_restarts,
            full_disks: self.full_disks + other.full_disks,
            takeovers: self.takeovers + other.takeovers,
            deposed: self.deposed + other.deposed,
            promotions: self.promotions + other.promotions,
            losses: self.losses + other.losses,
            late_commits: self.late_commits + other.late_commits,
            slow_commits: self.slow_commits + other.slow_commits,
            crowds: self.crowds + other.crowds,
            reruns: self.reruns + other.reruns,
            broken_nodes: self.broken_nodes + other.broken_nodes,
            lost_registries: self.lost_registries + other.lost_registries,
            long_runs: self.long_runs + other.long_runs,
            mass_silences: self.mass_silences + other.mass_silences,
            full_ledgers: self.full_ledgers + other.full_ledgers,
            changed_leases: self.changed_leases + other.changed_leases,
            rejected_nodes: self.rejected_nodes + other.rejected_nodes,
            forgotten_nodes: self.forgotten_nodes + other.forgotten_nodes,
            given_up: self.given_up + other.given_up,
            unpublished: self.unpublished + other.unpublished,
            missing_secrets: self.missing_secrets + other.missing_secrets,
            lost_networks: self.lost_networks + other.lost_networks,
            damaged_images: self.damaged_images + other.damaged_images,
            refused_arrays: self.refused_arrays + other.refused_arrays,
            hostile_namespaces: self.hostile_namespaces + other.hostile_namespaces,
            shared_clusters: self.shared_clusters + other.shared_clusters,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            steps,
            jobs,
            executions,
            orchestrator_crashes,
            agent_crashes,
            agent_reboots,
            lost_messages,
            clock_steps,
            machine_restarts,
            full_disks,
            takeovers,
            deposed,
            promotions,
            losses,
            late_commits,
            slow_commits,
            crowds,
            reruns,
            broken_nodes,
            lost_registries,
            long_runs,
            mass_silences,
            full_ledgers,
            changed_leases,
            rejected_nodes,
            forgotten_nodes,
            given_up,
            unpublished,
            missing_secrets,
            lost_networks,
            damaged_images,
            refused_arrays,
            hostile_namespaces,
            shared_clusters,
        } = self;
        write!(
            f,
            "{steps} steps: {jobs} jobs, {executions} executions, {lost_messages} messages lost, \
             {orchestrator_crashes} crashes of the orchestrator, {agent_crashes} of agents, \
             {agent_reboots} of them with their machine, {clock_steps} clock steps, \
             {machine_restarts} restarts of the orchestrator's machine, {full_disks} full disks, \
             {takeovers} takeovers, {deposed} deposed processes, {promotions} promotions, \
             {losses} of them with a loss, {late_commits} late commits, \
             {slow_commits} slow commits, {rejected_nodes} rejected and \
             {forgotten_nodes} forgotten nodes, {given_up} executions given up, {unpublished} runs \
             unpublished, {missing_secrets} missing secrets; \
             at the end {crowds} crowds, {reruns} reruns, {broken_nodes} broken nodes, {lost_registries} lost \
             registries, {long_runs} silences in long runs, {mass_silences} mass silences, \
             {full_ledgers} full ledgers, {changed_leases} changed leases, {lost_networks} lost \
             networks, {damaged_images} damaged images, {refused_arrays} refused arrays, \
             {hostile_namespaces} hostile namespaces, {shared_clusters} shared clusters"
        )
    }
}

/// An injected bug of the service, to check that the simulation finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The orchestrator responds before the commit.
    AnswerBeforeCommit,
    /// An agent deletes its reports when they are sent instead of acknowledged.
    ForgetReports,
    /// An agent does not know that its machine has restarted.
    ForgetBoot,
    /// The orchestrator decides by the wall clock.
    TrustWallClock,
    /// A commit under a term that is over is acknowledged.
    NoFence,
    /// A process reads the state before its term begins.
    LoadBeforeTerm,
    /// The scheduler reserves no node.
    NoReservations,
    /// No silence ends a lease.
    NoSilence,
    /// The scheduler is not notified of a secret that jobs wait for.
    ProvideSilently,
    /// The scheduler does not learn for how long a job wants its nodes to be waited for.
    ForgetLostAfter,
    /// The shortest patience is filled in as if every job had asked for it.
    FillInPatience,
    /// The store does not keep when an execution was accepted.
    ForgetAcceptance,
    /// The store does not keep which lease an agent was told.
    ForgetLease,
    /// The failures of a node are taken for those of tasks.
    BlameTasks,
    /// The failures of a node are taken for images that cannot be had.
    BlameImages,
    /// Images that one node cannot have are taken for a lack of room, which excludes no node.
    BlameRoom,
    /// The orchestrator notices neither that it was paused nor how long a commit took.
    OverlookDelays,
    /// The heartbeats of an agent wait for its ledger.
    HeartbeatsWait,
    /// The scheduler is not told that an agent does not finish what it does.
    OverlookStalls,
    /// A run whose results cannot be published is taken for one that failed.
    RunUnpublishedAgain,
    /// The store does not keep when a node joined, and thus that it was forgotten before.
    ForgetJoining,
    /// A container that a node refuses counts against the node.
    BlameNodes,
    /// A container that a node refuses is taken for an image that cannot be had, and tried on.
    TryRefusedAgain,
    /// A probe that passes does not end a back-off.
    ForgetPassedProbes,
    /// A probe that fails ends a back-off.
    OverlookFailedProbes,
    /// What one namespace says of a node counts as if several said it.
    BelieveOneNamespace,
    /// A node that gets work stays idle in the store.
    KeepIdleness,
    /// A restart does not know how many executions of a job may be live.
    ForgetMaxRunning,
    /// A restart does not count who has units of concurrency groups.
    ForgetHolders,
    /// A unit of a concurrency group stays taken during the delay before a retry.
    KeepUnits,
    /// What is given back to a quota starts nothing that waits for it.
    KeepQuota,
    /// What is given back to a quota starts only what may run on the node that gave it back.
    KeepQuotaElsewhere,
    /// Namespaces that wait get room by age alone.
    IgnoreShares,
    /// A restart does not count what a namespace uses of its quota.
    ForgetUsage,
    /// The store does not keep what became of the slots of an array.
    ForgetOutcomes,
    /// A restart does not learn that jobs on which others depend have ended.
    ForgetEnds,
    /// A restart does not learn what became of the slots of jobs that have ended.
    ForgetCounterparts,
    /// The job of a due time is stored before the schedule knows of it.
    StoreDueTimesApart,
    /// Slots that were cancelled count as completed when a job runs again.
    CompleteCancelled,
    /// A process that loads does not say that it lives.
    LoadSilently,
    /// Heartbeats are answered by a process that may have lost the lead.
    BypassGate,
    /// Snapshots leave without a commit that began later.
    SkipProofs,
    /// A follower compares its wall clock with that of the leader.
    CompareWallClocks,
    /// A takeover after a promotion skips no numbers.
    NoJump,
    /// A commit whose answer got lost counts as stored once it is read.
    ResolveByReading,
}

// === impl Sabotage ===

impl Sabotage {
    pub const ALL: [Self; 45] = [
        Self::AnswerBeforeCommit,
        Self::ForgetReports,
        Self::ForgetBoot,
        Self::TrustWallClock,
        Self::NoFence,
        Self::LoadBeforeTerm,
        Self::NoReservations,
        Self::NoSilence,
        Self::ProvideSilently,
        Self::ForgetLostAfter,
        Self::FillInPatience,
        Self::ForgetAcceptance,
        Self::ForgetLease,
        Self::BlameTasks,
        Self::BlameImages,
        Self::BlameRoom,
        Self::OverlookDelays,
        Self::HeartbeatsWait,
        Self::OverlookStalls,
        Self::RunUnpublishedAgain,
        Self::ForgetJoining,
        Self::BlameNodes,
        Self::TryRefusedAgain,
        Self::ForgetPassedProbes,
        Self::OverlookFailedProbes,
        Self::BelieveOneNamespace,
        Self::KeepIdleness,
        Self::ForgetMaxRunning,
        Self::ForgetOutcomes,
        Self::ForgetHolders,
        Self::KeepUnits,
        Self::ForgetEnds,
        Self::ForgetCounterparts,
        Self::StoreDueTimesApart,
        Self::CompleteCancelled,
        Self::KeepQuota,
        Self::KeepQuotaElsewhere,
        Self::ForgetUsage,
        Self::LoadSilently,
        Self::BypassGate,
        Self::SkipProofs,
        Self::CompareWallClocks,
        Self::NoJump,
        Self::ResolveByReading,
        Self::IgnoreShares,
    ];
}
