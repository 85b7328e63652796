//! Sends reports in order, and repeats them until they are acknowledged.

use agent_core::node_state::Input;
use agent_core::session::Acknowledged;
use api_client::ClientError;
use api_types::protocol::{Report, ReportBatch};
use failpoint::StepFailpoints;
use tracing::{debug, warn};

use super::{Session, is_refusal};
use crate::node::mailbox::Message;

const FAILPOINTS: StepFailpoints<ClientError> = StepFailpoints {
    before: "report.send",
    after: "report.acknowledged",
    refused: unanswered,
    lost: unanswered,
};

fn unanswered() -> ClientError {
    let (operation, base_url, reason) = ("report", "the orchestrator", "failpoint");
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
            let send = || self.client.report(self.node_id, &batch);
            let delay = match failpoint::around(FAILPOINTS, send).await {
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
                    match error.is_about_the_body() {
                        true => self.outbox.refused(&batch.reports, &error.to_string()),
                        false => self.outbox.failed(),
                    }
                }
            };
            tokio::time::sleep(delay).await;
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
