//! The orchestrators that share a store, as the leader sees them.

use prometheus_client::metrics::counter::Counter;
use telemetry::metrics::{Registry, number, sample};

use crate::members::MemberCounts;

pub(super) fn show_members(counts: &MemberCounts, registry: &mut Registry) {
    let help = "Orchestrators that were seen within a week, this one included";
    number(registry, "members", help, sample(counts.members as u64));
    let help = "Orchestrators that could take the lead over";
    number(registry, "ready_standbys", help, sample(counts.ready_standbys as u64));
    let help = "Orchestrators whose settings differ from this one's, although they must be equal";
    let differing = sample(counts.with_other_settings as u64);
    number(registry, "members_with_other_settings", help, differing);
    let help = "Takeovers of the lead by any orchestrator, counted in the database";
    registry.register("takeovers", help, counter(counts.takeovers));
    let help = "Times that the database had lost commits which it had acknowledged";
    registry.register("times_went_back", help, counter(counts.times_went_back));
}

fn counter(count: u64) -> Counter {
    let counter = <Counter>::default();
    counter.inc_by(count);
    counter
}
