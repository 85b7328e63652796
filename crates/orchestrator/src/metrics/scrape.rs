//! What is read during a scrape: the queue, the nodes, the files.

use std::sync::Arc;

use api_types::gate::GateType;
use api_types::node::{Connection, Eligibility, Membership, Node};
use api_types::quantity::Resources;
use control_plane::store::StoreSize;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use scheduler::{Entitled, Entitlement, QuotaUse, Waiting};
use telemetry::metrics::{Exposition, Registry, cores, elapsed, number, quantity, sample};

use super::members::show_members;
use super::{DAEMON, Metrics};
use crate::members::MemberCounts;
use crate::namespaces::fraction;

/// All that was read; what was not available in time is missing from the response.
pub(crate) struct Scrape {
    pub(crate) waiting: Option<Waiting>,
    /// Of the first [`MOST_NAMESPACES`] namespaces that have a quota or a weight.
    pub(crate) entitled: Vec<Entitled>,
    pub(crate) is_mass_silence: Option<bool>,
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) store: Option<StoreSize>,
    /// Inputs that wait for the driver.
    pub(crate) inputs: usize,
    pub(crate) members: MemberCounts,
    /// The pools that callers share: permits in use, and all.
    pub(crate) pools: Vec<(&'static str, usize, usize)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Standing {
    connection: &'static str,
    membership: &'static str,
    eligibility: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfFile {
    file: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPool {
    pool: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfGate {
    gate: &'static str,
}

/// Namespaces that have series, so that users cannot add some without bound.
pub(crate) const MOST_NAMESPACES: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfNamespace {
    namespace: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQuota {
    namespace: String,
    resource: &'static str,
}

/// The pools whose permits are open requests.
const OPEN_REQUESTS: [&str; 3] = ["waiting_read", "event_stream", "log_reader"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn render(
        &self,
        form: Exposition,
        scrape: &Scrape,
    ) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix(DAEMON);
        scrape.queue(&mut registry);
        scrape.namespaces(&mut registry);
        scrape.fleet(&mut registry);
        scrape.files(&mut registry);
        scrape.open(&mut registry);
        show_members(&scrape.members, &mut registry);
        form.render(&[&self.registry, &self.standing.registry, &registry])
    }
}

// === impl Scrape ===

impl Scrape {
    fn queue(&self, registry: &mut Registry) {
        let inputs = sample(self.inputs as u64);
        number(registry, "inputs_waiting", "Inputs that wait for the driver", inputs);
        let Some(waiting) = &self.waiting else { return };
        let help = "Jobs with executions that wait for capacity on any suitable node";
        number(registry, "queue_jobs", help, sample(waiting.jobs as u64));
        let help = "Slots of ops and daemon jobs that wait for capacity on their node";
        number(registry, "queue_pinned_slots", help, sample(waiting.pinned as u64));
        let family = Family::<OfGate, Gauge>::default();
        for gate in GateType::ALL {
            let jobs = waiting.gated.get(gate).copied().unwrap_or_default();
            let jobs = i64::try_from(jobs).unwrap_or(i64::MAX);
            family.get_or_create(&OfGate { gate: gate.as_str() }).set(jobs);
        }
        let help = "Jobs with executions that a gate holds back, by gate";
        registry.register("gated_jobs", help, family);
        let help = "Time since the submission of the oldest waiting job, 0 without one";
        let wait = waiting.longest().map_or(0.0, elapsed);
        quantity(registry, "queue_oldest_wait", help, Unit::Seconds, wait);
    }

    fn namespaces(&self, registry: &mut Registry) {
        type Amounts<T> = Family<T, Gauge<f64, std::sync::atomic::AtomicU64>>;
        let [allowed, used] = [(); 2].map(|()| Amounts::<OfQuota>::default());
        let shares = Amounts::<OfNamespace>::default();
        for Entitled { namespace, to: Entitlement { quota, .. }, used: held, share } in
            &self.entitled
        {
            let QuotaUse { held, executions, queued } = held;
            shares
                .get_or_create(&OfNamespace { namespace: namespace.to_string() })
                .set(fraction(*share));
            let resources = [
                ("cpu", quota.cpu_millis.map(cores), cores(held.cpu_millis)),
                ("memory", quota.memory_bytes.map(sample), sample(held.memory_bytes)),
                ("gpu", quota.gpus.map(sample), sample(held.gpus)),
                ("executions", quota.executions.map(sample), sample(*executions)),
                ("queued_executions", quota.queued.map(sample), sample(*queued)),
            ];
            for (resource, most, amount) in resources {
                let Some(most) = most else { continue };
                let of = OfQuota { namespace: namespace.to_string(), resource };
                allowed.get_or_create(&of).set(most);
                used.get_or_create(&of).set(amount);
            }
        }
        let help =
            "Quota of the namespace: cores, bytes or a number; of the first 100 that have one";
        registry.register("namespace_quota", help, allowed);
        registry.register("namespace_usage", "What the namespace uses of its quota", used);
        let help = "Largest part that the namespace holds of a resource of all nodes in service; of \
                    the first 100 that have a quota or a weight";
        registry.register("namespace_share", help, shares);
    }

    fn fleet(&self, registry: &mut Registry) {
        let family = Family::<Standing, Gauge>::default();
        let mut sessions = 0;
        let (mut capacity, mut allocated) = (Resources::ZERO, Resources::ZERO);
        for node in &self.nodes {
            family.get_or_create(&standing(node)).inc();
            if node.connection != Connection::Connected {
                continue;
            }
            sessions += 1;
            let most = Resources::from(node.compute_node_info.max_capacity);
            let free = Resources::from(node.compute_node_info.available_capacity);
            capacity = capacity.plus(&most);
            allocated = allocated.plus(&most.minus(&free));
        }
        registry.register("nodes", "Known compute nodes, by membership and connection", family);
        if let Some(is_mass_silence) = self.is_mass_silence {
            let help = "1 while most nodes are silent, so that nothing is replaced";
            number(registry, "mass_silence", help, sample(u64::from(is_mass_silence)));
        }
        let help = "Nodes with a session";
        number(registry, "sessions", help, sample(sessions));
        resources(registry, "capacity", "Total capacity of the nodes with a session", &capacity);
        let help = "Capacity allocated to executions on nodes with a session";
        resources(registry, "allocated", help, &allocated);
    }

    fn files(&self, registry: &mut Registry) {
        let Some(store) = self.store else { return };
        let family = Family::<OfFile, Gauge<f64, std::sync::atomic::AtomicU64>>::default();
        let of = |file| OfFile { file };
        family.get_or_create(&of("database")).set(sample(store.database_bytes));
        family.get_or_create(&of("log")).set(sample(store.log_bytes));
        let help = "Size of the state database and of its write-ahead log";
        registry.register_with_unit("store_size", help, Unit::Bytes, family);
        let help = "Free space in the state database";
        quantity(registry, "store_free", help, Unit::Bytes, sample(store.free_bytes()));
        let help = "Free pages in the state database";
        number(registry, "store_free_pages", help, sample(store.free_pages));
        let help = "Pages of the state database";
        number(registry, "store_pages", help, sample(store.pages));
    }

    fn open(&self, registry: &mut Registry) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let open = Family::<OfKind, Gauge>::default();
        let [used, all] = [(); 2].map(|()| Family::<OfPool, Gauge>::default());
        for &(pool, held, total) in &self.pools {
            if OPEN_REQUESTS.contains(&pool) {
                open.get_or_create(&OfKind { kind: pool }).set(count(held));
            }
            used.get_or_create(&OfPool { pool }).set(count(held));
            all.get_or_create(&OfPool { pool }).set(count(total));
        }
        registry.register("open_requests", "Open long-lived requests, by kind", open);
        registry.register("pool_used", "Permits in use of what callers share, by pool", used);
        registry.register("pool_size", "Permits of what callers share, by pool", all);
    }
}

fn resources(registry: &mut Registry, name: &str, help: &str, of: &Resources) {
    let unit = Unit::Other("cores".to_owned());
    quantity(registry, &format!("{name}_cpu"), &format!("{help}: CPU"), unit, cores(of.cpu_millis));
    for (what, bytes) in [("memory", of.memory_bytes), ("disk", of.disk_bytes)] {
        let (name, help) = (format!("{name}_{what}"), format!("{help}: {what}"));
        quantity(registry, &name, &help, Unit::Bytes, sample(bytes));
    }
    number(registry, &format!("{name}_gpus"), &format!("{help}: GPUs"), sample(of.gpus));
}

fn standing(node: &Node) -> Standing {
    Standing {
        connection: match node.connection {
            Connection::Connected => "connected",
            Connection::Disconnected => "disconnected",
        },
        membership: match node.membership {
            Membership::Pending => "pending",
            Membership::Approved => "approved",
            Membership::Rejected => "rejected",
        },
        eligibility: match node.eligibility {
            Eligibility::Eligible => "eligible",
            Eligibility::Cordoned => "cordoned",
            Eligibility::Draining => "draining",
        },
    }
}
