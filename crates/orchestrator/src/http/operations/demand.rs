//! Cluster Demand: what waits for room, for programs that add nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::demand::{ClusterDemand, DemandClass, DemandedResources};
use api_types::node::{Connection, Eligibility, HealthState, Membership, Node};
use api_types::quantity::{Capacity, Resources};
use api_types::{Code, routes};
use axum::extract::State;
use daemon::collect;
use daemon::http::Operations;
use scheduler::WaitingClass;
use scheduler::demand::{Demand, Fit, Need};

use super::survey;
use crate::clock;
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::Access;
use crate::http::openapi::{CALL, QUERY, examples, refusals};
use crate::http::query::{Limit, Namespace, query};
use crate::http::respond::{blocking, json};

query! {
    struct DemandQuery {
        namespace: Option<String> = (
            "namespace",
            Namespace { default: "*" },
            "What waits in one namespace; `*`, the default, means all that the caller sees."
        );
        limit: u32 = (
            "limit",
            Limit { default: 100 },
            "Classes; 0 selects the default, the maximum is 1,000."
        );
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(demand))
}

/// Cluster Demand
///
/// What waits for room: per class of executions that need the same, how many wait, since when, what
/// a node needs to run one, and how many nodes could.
#[utoipa::path(
    get,
    path = routes::CLUSTER_DEMAND,
    operation_id = "readClusterDemand",
    tag = "Cluster",
    params(DemandQuery),
    responses((status = 200, description = "The classes.", body = ClusterDemand, example = json!(examples::cluster_demand()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::NamespaceNotFound]])))),
)]
async fn demand(State(api): State<Arc<Api>>, access: Access, query: DemandQuery) -> Handled {
    let DemandQuery { namespace, limit } = query;
    let visible = access.within(namespace)?;
    let question = move |scheduler: &scheduler::Scheduler| {
        scheduler.demand(limit as usize, |namespace| visible.contain(namespace))
    };
    let (found, _turn) = survey::ask(&api, question).await?;
    let nodes = api.view.nodes();
    // Many classes may have to be compared with many nodes.
    blocking(move || {
        let mut fleet = Fleet::new(&nodes);
        let now = clock::now();
        let classes = found.classes.into_iter().map(|class| {
            let shows = access.caller().role.is_of_the_cluster()
                || access.shows_content(&class.want.namespace);
            let since = (now - class.waited).rfc3339();
            shown(class, since, shows, &mut fleet)
        });
        let (time, classes) = (now.rfc3339(), classes.collect());
        json(&ClusterDemand { time, classes, more: found.more })
    })
    .await?
}

fn shown(
    class: WaitingClass,
    since: String,
    shows_constraints: bool,
    fleet: &mut Fleet<'_>,
) -> DemandClass {
    let Demand { fit, need } = &*class.want.demand;
    let (capable_nodes, open_nodes) = fleet.count(fit, need);
    let constraints = match shows_constraints {
        true => fit.constraints.iter().cloned().map(Into::into).collect(),
        false => Vec::new(),
    };
    DemandClass {
        namespace: class.want.namespace.to_string(),
        engine: fit.engine,
        publisher: fit.publisher,
        storage_sources: fit.sources.clone(),
        constraints,
        resources: resources(need),
        priority: class.priority,
        jobs: class.jobs,
        slots: class.slots,
        slots_is_more: class.more_slots,
        since,
        message: class.explanation.as_deref().unwrap_or_default().to_owned(),
        capable_nodes,
        open_nodes,
    }
}

fn resources(need: &Need) -> DemandedResources {
    let Capacity { cpu, memory, disk, gpu } = need.on(&Resources::ZERO).into();
    DemandedResources {
        cpu: need.cpu_millis.map(|_| cpu),
        memory: need.memory_bytes.map(|_| memory),
        disk,
        gpu,
    }
}

/// The nodes that are connected and approved, and which of them suit what was asked about before.
struct Fleet<'a> {
    nodes: Vec<&'a Node>,
    suitable: BTreeMap<Fit, Vec<&'a Node>>,
}

// === impl Fleet ===

impl<'a> Fleet<'a> {
    fn new(nodes: &'a [Arc<Node>]) -> Self {
        let is_there = |node: &&Node| {
            node.connection == Connection::Connected && node.membership == Membership::Approved
        };
        let nodes = nodes.iter().map(|node| &**node).filter(is_there).collect();
        Self { nodes, suitable: BTreeMap::new() }
    }

    /// The nodes that could run such an execution while they are empty, and those of them that take
    /// work. What an execution leaves open is the node's own default, which fits.
    fn count(&mut self, fit: &Fit, need: &Need) -> (u64, u64) {
        let need = need.on(&Resources::ZERO);
        let is_large_enough = |node: &Node| {
            let info = &node.compute_node_info;
            need.fits_in(&info.max_capacity.into())
                && need.fits_in(&info.max_job_requirements.into())
        };
        let is_open = |node: &Node| {
            node.eligibility == Eligibility::Eligible && node.health.state == HealthState::Healthy
        };
        let (mut capable, mut open) = (0, 0);
        for node in self.suiting(fit).iter().filter(|node| is_large_enough(node)) {
            capable += 1;
            open += u64::from(is_open(node));
        }
        (capable, open)
    }

    fn suiting(&mut self, fit: &Fit) -> &[&'a Node] {
        if !self.suitable.contains_key(fit) {
            let suits = |node: &&&Node| {
                let info = &node.compute_node_info;
                let (engines, publishers) = (&info.execution_engines, &info.publishers);
                fit.unmet(&node.labels, engines, publishers, &info.storage_sources).is_none()
            };
            let suitable = self.nodes.iter().filter(suits).copied().collect();
            self.suitable.insert(fit.clone(), suitable);
        }
        &self.suitable[fit]
    }
}
