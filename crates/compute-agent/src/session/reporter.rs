//! Sends reports in order, and repeats them until they are acknowledged.

use std::time::Duration;

use agent_core::node_state::Input;
use agent_core::session::Acknowledged;
use api_client::ClientError;
use api_types::protocol::{Report, ReportAnswer, ReportBatch};
use failpoint::StepFailpoints;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{Session, is_refusal};
use crate::node::mailbox::Message;

const FAILPOINTS: StepFailpoints<ClientError> =
    StepFailpoints { before: "report.send", after: "report.acknowledged", refused: lost, lost };

fn lost() -> ClientError {
    unanswered("failpoint")
}

fn unanswered(reason: &str) -> ClientError {
    let (operation, base_url) = ("report", "the orchestrator");
    ClientError::Unreachable {
        operation: operation.to_owned(),
        base_url: base_url.to_owned(),
        reason: reason.to_owned(),
    }
}

impl Session {
    /// Sends the contents of the outbox; never returns. Only one batch is in flight at a time.
    pub(crate) async fn report(&self) {
        loop {
            let reports = self.outbox.next_batch().await;
            let session = self.watch.session().await;
            let batch = ReportBatch { session, reports: self.readable(reports) };
            let (began, limit) = (Instant::now(), self.outbox.time_limit());
            let delay = match self.send(&batch, limit).await {
                Ok(answer) => {
                    let Acknowledged { acknowledged, left, delay } =
                        self.outbox.answered(&batch.reports, answer.acknowledged);
                    self.mailbox.send(Message::Input(Input::Acknowledged(acknowledged))).await;
                    if left == 0 {
                        continue;
                    }
                    warn!(left, "the orchestrator left reports unacknowledged; sending them again");
                    delay
                }
                Err(error) => {
                    self.unreported(&batch, &error);
                    if error.is_about_the_body() {
                        self.outbox.refused(&batch.reports, &error.to_string())
                    } else if began.elapsed() >= limit {
                        self.outbox.unanswered()
                    } else {
                        self.outbox.failed()
                    }
                }
            };
            tokio::time::sleep(delay).await;
        }
    }

    /// A batch that a former leader has, and may never answer, is given up when there is another one.
    async fn send(
        &self,
        batch: &ReportBatch,
        limit: Duration,
    ) -> Result<ReportAnswer, ClientError> {
        let term = self.watch.leader_term();
        let send = || self.client.report(self.node_id, batch, limit);
        tokio::select! {
            biased;
            answer = failpoint::around(FAILPOINTS, send) => answer,
            () = self.watch.is_replaced(&term) => Err(unanswered("another orchestrator leads now")),
        }
    }

    /// With causes that this orchestrator knows.
    fn readable(&self, mut reports: Vec<Report>) -> Vec<Report> {
        for report in &mut reports {
            report.cause = self.probes.sendable(report.cause);
        }
        reports
    }

    fn unreported(&self, ReportBatch { session, reports }: &ReportBatch, error: &ClientError) {
        let reports = reports.len();
        if is_refusal(error) {
            debug!(session, %error, "reports wait for the next session");
            self.watch.refuse(*session);
        } else if error.is_transient() {
            debug!(%error, reports, "reports wait");
        } else {
            warn!(%error, reports, "reports are refused; trying again");
        }
    }
}
