//! The cluster as a whole, now and over the last week.
//!
//! Live records are counted in memory, so their counts cost no query. Only finished jobs are
//! counted in the store, through an index, and that count is cached: the longer it took, the
//! longer. The load is sampled every ten seconds into a ring of an hour, and every two minutes
//! becomes a row of the store, which keeps a week.

mod load;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_types::Timestamp;
use api_types::cluster::{Cluster, ClusterLoad, NodeCounts};
use api_types::job::JobStateType;
use api_types::node::{Connection, Eligibility, HealthState, Membership, Node};
use api_types::quantity::Resources;
use control_plane::store::{JobTotals, Reads};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::load::{Ring, SAMPLE_SECONDS, SAMPLES_PER_ROW};
use crate::clock;
use crate::driver::Handle;
use crate::metrics::{Counts, Metrics};
use crate::reads::{AskedBy, ReadError, Reader};
use crate::shares::Owner;
use crate::view::View;

/// For how long a count of the store is used at least.
const COUNT_AGE: Duration = Duration::from_secs(1);

/// Of the time, counting in the store takes this fraction at most.
const COUNT_SHARE: u32 = 20;

/// Counts the cluster.
pub(crate) struct Watched {
    view: Arc<View>,
    metrics: Arc<Metrics>,
    reader: Reader,
    load: Mutex<Ring>,
    counted: AsyncMutex<Option<Counted>>,
}

/// A count of the store, and until when it is used.
#[derive(Clone)]
struct Counted {
    totals: JobTotals,
    until: Instant,
}

// === impl Watched ===

impl Watched {
    pub(crate) fn new(view: Arc<View>, metrics: Arc<Metrics>, reader: Reader) -> Self {
        let counts = metrics.counts();
        Self {
            view,
            metrics,
            reader,
            load: Mutex::new(Ring::beginning_with(&counts)),
            counted: AsyncMutex::default(),
        }
    }

    /// Samples the load until the service stops.
    pub(crate) async fn sample(&self, handle: &Handle, stopping: CancellationToken) {
        let period = Duration::from_secs(SAMPLE_SECONDS);
        let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        for number in 1_u64.. {
            if stopping.run_until_cancelled(ticks.tick()).await.is_none() {
                return;
            }
            self.sample_now(clock::now());
            let is_due = number.is_multiple_of(SAMPLES_PER_ROW);
            let row = if is_due { self.ring().row() } else { None };
            if let Some(row) = row
                && let Err(error) = handle.store_load(row).await
            {
                // A chart has a gap.
                tracing::debug!(%error, "cannot store the load of the cluster");
            }
        }
    }

    fn sample_now(&self, now: Timestamp) {
        let fleet = Fleet::from_nodes(&self.view.nodes());
        self.ring().push(now, &fleet, &self.metrics.counts());
    }

    pub(crate) async fn load(
        &self,
        since: Timestamp,
        step: Option<u64>,
    ) -> Result<ClusterLoad, ReadError> {
        let oldest = self.ring().oldest().unwrap_or_else(clock::now);
        let mut rows = Vec::new();
        if since < oldest {
            let read = move |reads: &dyn Reads| Ok::<_, ReadError>(reads.cluster_load(since)?);
            rows = self.reader.run(AskedBy::User, read).await?;
            rows.retain(|row| row.time < oldest);
        }
        Ok(self.ring().load(&rows, since, clock::now(), step))
    }

    /// All counts; waits for the store only if its last count is too old.
    pub(crate) async fn describe(&self) -> Result<Cluster, ReadError> {
        let totals = self.totals().await?;
        let Counts { mut jobs, executions } = self.metrics.counts();
        (jobs.completed, jobs.failed, jobs.stopped) = (0, 0, 0);
        for (state, count) in totals.ended {
            match state {
                JobStateType::Completed => jobs.completed = count,
                JobStateType::Failed => jobs.failed = count,
                JobStateType::Stopped => jobs.stopped = count,
                JobStateType::Pending | JobStateType::Queued | JobStateType::Running => {}
            }
        }
        let fleet = Fleet::from_nodes(&self.view.nodes());
        Ok(Cluster {
            time: clock::now().rfc3339(),
            jobs,
            executions,
            nodes: fleet.nodes,
            capacity: fleet.capacity.into(),
            allocated: fleet.allocated.into(),
            oldest_wait: totals.oldest_queued.map(Timestamp::rfc3339).unwrap_or_default(),
        })
    }

    /// One count at a time, however many ask for it.
    async fn totals(&self) -> Result<JobTotals, ReadError> {
        let mut counted = self.counted.lock().await;
        let began = Instant::now();
        if let Some(Counted { totals, until }) = counted.as_ref()
            && began < *until
        {
            return Ok(totals.clone());
        }
        let read = self.reader.run(AskedBy::User, |reads| Ok::<_, ReadError>(reads.job_totals()?));
        let read = Owner::service().within(read);
        let totals = read.await?;
        let until = Instant::now() + COUNT_AGE.max(began.elapsed() * COUNT_SHARE);
        *counted = Some(Counted { totals: totals.clone(), until });
        Ok(totals)
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The compute nodes together.
struct Fleet {
    nodes: NodeCounts,
    capacity: Resources,
    allocated: Resources,
}

// === impl Fleet ===

impl Fleet {
    fn from_nodes(nodes: &[Arc<Node>]) -> Self {
        let mut fleet = Self {
            nodes: NodeCounts::default(),
            capacity: Resources::ZERO,
            allocated: Resources::ZERO,
        };
        nodes.iter().for_each(|node| fleet.add(node));
        fleet
    }

    fn add(&mut self, node: &Node) {
        let counts = &mut self.nodes;
        let is_connected = node.connection == Connection::Connected;
        counts.total += 1;
        counts.connected += u64::from(is_connected);
        counts.disconnected += u64::from(!is_connected);
        counts.pending += u64::from(node.membership == Membership::Pending);
        counts.rejected += u64::from(node.membership == Membership::Rejected);
        counts.cordoned += u64::from(node.eligibility == Eligibility::Cordoned);
        counts.draining += u64::from(node.eligibility == Eligibility::Draining);
        let is_healthy = node.health.state == HealthState::Healthy;
        counts.unhealthy += u64::from(is_connected && !is_healthy);
        counts.reserved += u64::from(!node.reserved_since.is_empty());
        if is_connected && node.membership == Membership::Approved {
            let most = Resources::from(node.compute_node_info.max_capacity);
            let free = Resources::from(node.compute_node_info.available_capacity);
            self.capacity = self.capacity.plus(&most);
            self.allocated = self.allocated.plus(&most.minus(&free));
        }
    }
}
