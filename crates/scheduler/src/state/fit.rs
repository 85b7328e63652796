//! Whether a node takes an execution, and what prevents it.

use api_types::node::{Connection, Eligibility, Membership};
use api_types::quantity::Resources;

use crate::change::NodeRow;
use crate::demand::{Demand, Resource, Unmet};
use crate::plan::Plan;
use crate::queue::Pool;
use crate::queue::heads::Limits;
use crate::state::node::LiveNode;
use crate::time::Moment;

/// Why a node will not take an execution now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obstacle<'a> {
    /// Not connected, cordoned, or not approved.
    Away(&'static str),
    /// The node lacks a property that the job requires.
    Unfit(Unmet<'a>),
    /// The node could not run it even when empty.
    TooSmall(Resource),
    /// The node could run it, but not now.
    InUse(Resource),
    /// It has room, and is reserved for work of a higher rank.
    Reserved,
}

// === impl LiveNode ===

impl LiveNode {
    /// Whether the node takes new work at all.
    pub(crate) fn takes_work(&self) -> bool {
        self.away().is_none()
    }

    /// Whether nothing but a trouble that may pass by itself keeps it from work.
    pub(crate) fn is_in_service(&self) -> bool {
        let NodeRow { connection, membership, eligibility, .. } = &self.row;
        (connection, membership, eligibility)
            == (&Connection::Connected, &Membership::Approved, &Eligibility::Eligible)
    }

    pub(crate) fn away(&self) -> Option<&'static str> {
        match (self.row.connection, self.row.membership, self.row.eligibility) {
            (Connection::Disconnected, _, _) => Some("disconnected"),
            (Connection::Connected, Membership::Pending, _) => Some("not approved yet"),
            (Connection::Connected, Membership::Rejected, _) => Some("rejected"),
            (Connection::Connected, Membership::Approved, Eligibility::Cordoned) => {
                Some("cordoned")
            }
            (Connection::Connected, Membership::Approved, Eligibility::Draining) => {
                Some("draining")
            }
            (Connection::Connected, Membership::Approved, Eligibility::Eligible)
                if self.stalled_since.is_some() =>
            {
                Some("stalled: its agent does not finish what it is doing")
            }
            (Connection::Connected, Membership::Approved, Eligibility::Eligible) => {
                self.row.health.obstacle()
            }
        }
    }

    /// What an execution may take of it now.
    pub(crate) fn limits(&self) -> Limits {
        Limits { room: self.free().least(&self.max_job), defaults: self.defaults }
    }

    /// Whether an execution of this demand fits while the node is empty, not counting the required
    /// properties.
    pub(crate) fn is_large_enough(&self, demand: &Demand) -> bool {
        let need = demand.need.on(&self.defaults);
        need.fits_in(&self.capacity) && need.fits_in(&self.max_job)
    }

    /// Whether an execution of this demand fits now, not counting the required properties.
    pub(crate) fn has_room(&self, demand: &Demand) -> bool {
        let need = demand.need.on(&self.defaults);
        need.fits_in(&self.free()) && need.fits_in(&self.max_job)
    }

    /// Whether it has room, and keeps it free for no other work.
    pub(crate) fn takes_now(&self, demand: &Demand, plan: &Plan, now: Moment) -> bool {
        self.has_room(demand)
            && !self.row.health.avoids(&plan.namespace, now)
            && !self.keeps_off(plan, &demand.need.on(&self.defaults), now)
    }

    /// Why an execution of this demand cannot be placed here now, or `None`.
    ///
    /// `plan` is that of the job that asks, if one does.
    pub(crate) fn obstacle<'a>(
        &self,
        demand: &'a Demand,
        plan: Option<&Plan>,
        now: Moment,
    ) -> Option<Obstacle<'a>> {
        if let Some(away) = self.away() {
            return Some(Obstacle::Away(away));
        }
        if let Some(unfit) = self.unfit(demand) {
            return Some(Obstacle::Unfit(unfit));
        }
        let need = demand.need.on(&self.defaults);
        if let Some(what) =
            Resource::short(&need, &self.capacity).or_else(|| Resource::short(&need, &self.max_job))
        {
            return Some(Obstacle::TooSmall(what));
        }
        if plan.is_some_and(|plan| self.row.health.avoids(&plan.namespace, now)) {
            return Some(Obstacle::Away("being probed with work of another namespace"));
        }
        if let Some(what) = Resource::short(&need, &self.free()) {
            return Some(Obstacle::InUse(what));
        }
        let kept_off = plan.is_some_and(|plan| self.keeps_off(plan, &need, now));
        kept_off.then_some(Obstacle::Reserved)
    }

    /// Whether it could take an execution of this demand if it were empty and in service, and its
    /// engines available; `obstacle` is what prevents one now. Compares the required properties only
    /// where that does not tell.
    pub(crate) fn could_ever_take(&self, demand: &Demand, obstacle: &Obstacle<'_>) -> bool {
        match obstacle {
            Obstacle::Unfit(Unmet::Publisher(_) | Unmet::Source(_) | Unmet::Label(_))
            | Obstacle::TooSmall(_) => return false,
            Obstacle::InUse(_) | Obstacle::Reserved => return true,
            Obstacle::Away(_) | Obstacle::Unfit(Unmet::Engine(_)) => {}
        }
        let record = &self.row.record;
        let info = &record.compute_node_info;
        self.is_large_enough(demand)
            && demand.fit.is_met_but_for_the_engine(
                &record.labels,
                &info.publishers,
                &info.storage_sources,
            )
    }

    pub(crate) fn unfit<'a>(&self, demand: &'a Demand) -> Option<Unmet<'a>> {
        let record = &self.row.record;
        let info = &record.compute_node_info;
        demand.fit.unmet(
            &record.labels,
            &info.execution_engines,
            &info.publishers,
            &info.storage_sources,
        )
    }

    /// Whether it takes work, and suits that of the pool.
    pub(crate) fn fits(&self, pool: &Pool) -> bool {
        self.takes_work() && pool.suits(&self.row.record)
    }

    /// Whether the node is reserved for work of a higher rank, which this work would delay.
    pub(crate) fn keeps_off(&self, plan: &Plan, need: &Resources, now: Moment) -> bool {
        let Some(reservation) = &self.reservation else { return false };
        reservation.keeps_off(plan.rank, need, plan.longest_run(), now)
    }

    /// Whether it would have room once everything has ended that ends by itself.
    pub(crate) fn can_be_emptied_for(&self, need: &Resources) -> bool {
        need.fits_in(&self.max_job) && need.fits_in(&self.capacity.minus(&self.unending))
    }
}
