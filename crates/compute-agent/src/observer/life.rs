//! Observes the lifecycle of an execution as the supervisor commits it.

use std::sync::Arc;

use agent_core::execution::Exit;
use api_types::execution::ComputeState;
use api_types::protocol::{Acknowledgement, Report, Work};
use api_types::{ExecutionId, Timestamp};
use telemetry::metrics::elapsed;

use super::stage::Stage;
use super::state::{Life, Observer};
use super::watch::Watch;

// === impl Observer: lives ===

impl Observer {
    /// The report is in the ledger and queued for the orchestrator.
    pub(crate) fn reported(&self, report: &Report, work: &Arc<Work>, now: Timestamp) {
        let id = report.execution_id;
        let mut lives = self.lives();
        match report.compute_state {
            ComputeState::AskForBidAccepted => {
                // The progress of the preparation is reported in the same state.
                let life = lives.entry(id).or_insert_with(|| Life::new(work));
                life.accepted.get_or_insert(now);
            }
            ComputeState::BidAccepted if report.process_ended => {}
            ComputeState::BidAccepted => {
                if let Some(accepted) = lives.get(&id).and_then(|life| life.accepted) {
                    self.metrics.acceptance_to_start(work, elapsed(now.since(accepted)));
                }
            }
            state => {
                self.metrics.ended(state);
                let traced = self.context(work).is_some();
                match lives.get_mut(&id).filter(|_| traced) {
                    Some(life) => life.told = Some((report.sequence, now)),
                    None => drop(lives.remove(&id)),
                }
            }
        }
    }

    /// The orchestrator's order to run has arrived.
    pub(crate) fn told_to_run(&self, id: ExecutionId, now: Timestamp) {
        let lives = self.lives();
        let Some(life) = lives.get(&id) else { return };
        if let Some(accepted) = life.accepted {
            self.metrics.stage(&life.work, Stage::GoAhead, elapsed(now.since(accepted)));
        }
    }

    /// Its process has been running since then.
    pub(crate) fn runs(&self, id: ExecutionId, work: &Arc<Work>, since: Timestamp) {
        self.lives().entry(id).or_insert_with(|| Life::new(work)).started = Some(since);
    }

    /// Its process has ended.
    pub(crate) fn exited(self: &Arc<Self>, id: ExecutionId, exit: &Exit, now: Timestamp) {
        let life = self.lives().get(&id).and_then(|life| Some((life.work.clone(), life.started?)));
        let Some((work, started)) = life else { return };
        self.metrics.ran(&work, elapsed(now.since(started)));
        let error = (exit.code != 0).then(|| format!("exit code {}", exit.code));
        self.watch(id, &work).span(Watch::RUN, started, now, error);
    }

    /// The orchestrator has acknowledged these reports.
    pub(crate) fn acknowledged(self: &Arc<Self>, reports: &[Acknowledgement], now: Timestamp) {
        for Acknowledgement { execution_id: id, sequence } in reports {
            let mut lives = self.lives();
            let told = lives.get(id).and_then(|life| life.told);
            let Some((_, since)) = told.filter(|(last, _)| last == sequence) else { continue };
            let life = lives.remove(id);
            drop(lives);
            if let Some(life) = life {
                self.watch(*id, &life.work).span(Watch::REPORT, since, now, None);
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
        let lives = observer.lives();
        assert_eq!(lives[&execution_id(1)].accepted, Some(accepted));
    }
}
