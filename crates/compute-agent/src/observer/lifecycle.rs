//! Observes the lifecycle of an execution as the supervisor commits it.

use std::sync::Arc;

use agent_core::execution::Exit;
use api_types::execution::ComputeState;
use api_types::protocol::{Acknowledgement, Report, Work};
use api_types::{ExecutionId, Timestamp};
use telemetry::metrics::elapsed;

use super::stage::Stage;
use super::state::{Lifecycle, Observer};
use super::watch::Watch;

// === impl Observer: lives ===

impl Observer {
    /// The report is in the ledger and queued for the orchestrator.
    pub(crate) fn reported(&self, report: &Report, work: &Arc<Work>, now: Timestamp) {
        let id = report.execution_id;
        let mut lifecycles = self.lifecycles();
        match report.compute_state {
            ComputeState::AskForBidAccepted => {
                // The progress of the preparation is reported in the same state.
                let lifecycle = lifecycles.entry(id).or_insert_with(|| Lifecycle::new(work));
                lifecycle.accepted.get_or_insert(now);
            }
            ComputeState::BidAccepted if report.process_ended => {}
            ComputeState::BidAccepted => {
                if let Some(accepted) = lifecycles.get(&id).and_then(|lifecycle| lifecycle.accepted)
                {
                    self.metrics.acceptance_to_start(work, elapsed(now.since(accepted)));
                }
            }
            state => {
                self.metrics.ended(state);
                let traced = self.context(work).is_some();
                match lifecycles.get_mut(&id).filter(|_| traced) {
                    Some(lifecycle) => lifecycle.reported = Some((report.sequence, now)),
                    None => drop(lifecycles.remove(&id)),
                }
            }
        }
    }

    /// The orchestrator's order to run has arrived.
    pub(crate) fn run_requested(&self, id: ExecutionId, now: Timestamp) {
        let lifecycles = self.lifecycles();
        let Some(lifecycle) = lifecycles.get(&id) else { return };
        if let Some(accepted) = lifecycle.accepted {
            self.metrics.stage(&lifecycle.work, Stage::GoAhead, elapsed(now.since(accepted)));
        }
    }

    /// Its process has been running since then.
    pub(crate) fn runs(&self, id: ExecutionId, work: &Arc<Work>, since: Timestamp) {
        self.lifecycles().entry(id).or_insert_with(|| Lifecycle::new(work)).started = Some(since);
    }

    /// Its process has ended.
    pub(crate) fn exited(self: &Arc<Self>, id: ExecutionId, exit: &Exit, now: Timestamp) {
        let lifecycle = self
            .lifecycles()
            .get(&id)
            .and_then(|lifecycle| Some((lifecycle.work.clone(), lifecycle.started?)));
        let Some((work, started)) = lifecycle else { return };
        self.metrics.ran(&work, elapsed(now.since(started)));
        let error = (exit.code != 0).then(|| format!("exit code {}", exit.code));
        self.watch(id, &work).span(Watch::RUN, started, now, error);
    }

    /// The orchestrator has acknowledged these reports.
    pub(crate) fn acknowledged(self: &Arc<Self>, reports: &[Acknowledgement], now: Timestamp) {
        for Acknowledgement { execution_id: id, sequence } in reports {
            let mut lifecycles = self.lifecycles();
            let reported = lifecycles.get(id).and_then(|lifecycle| lifecycle.reported);
            let Some((_, since)) = reported.filter(|(last, _)| last == sequence) else { continue };
            let lifecycle = lifecycles.remove(id);
            drop(lifecycles);
            if let Some(lifecycle) = lifecycle {
                self.watch(*id, &lifecycle.work).span(Watch::REPORT, since, now, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use telemetry::traces::Tracer;

    use super::*;
    use crate::testing::{execution_id, work};

    #[test]
    fn progress_of_a_preparation_does_not_change_when_it_was_accepted() {
        let observer = Observer::new(Tracer::default());
        let report = Report::new(execution_id(1), 1, ComputeState::AskForBidAccepted);
        let accepted = Timestamp(1_000_000_000);
        observer.reported(&report, &work(), accepted);
        observer.reported(&report, &work(), accepted + Duration::from_secs(60));
        let lifecycles = observer.lifecycles();
        assert_eq!(lifecycles[&execution_id(1)].accepted, Some(accepted));
    }
}
