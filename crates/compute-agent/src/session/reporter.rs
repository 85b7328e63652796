//! Sends reports in order, and repeats them until they are acknowledged.

use agent_core::node_state::Input;
use api_client::ClientError;
use api_types::protocol::{Acknowledgement, ReportBatch};
use failpoint::Places;
use tracing::{debug, warn};

use super::{RETRY_FIRST, RETRY_LONGEST, Session, is_refusal};
use crate::host::backoff::Backoff;
use crate::node::mailbox::Message;

const PLACES: Places<ClientError> = Places {
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
    /// Sends the contents of the outbox; never returns. Only one batch is in flight at a time, so
    /// that the reports of an execution arrive in order.
    pub(crate) async fn report(&self) {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            let reports = self.outbox.next_batch().await;
            let session = self.watch.session().await;
            let batch = ReportBatch { session, reports };
            let send = || self.client.report(self.node_id, &batch);
            match failpoint::around(PLACES, send).await {
                Ok(answer) => {
                    let left = self.outbox.acknowledge(&batch.reports, &answer.acknowledged);
                    let acknowledged = ours(&batch, answer.acknowledged);
                    self.mailbox.send(Message::Input(Input::Acknowledged(acknowledged))).await;
                    if left == 0 {
                        backoff.reset();
                        continue;
                    }
                    warn!(left, "the orchestrator left reports unacknowledged; sending them again");
                }
                Err(error) if is_refusal(&error) => {
                    debug!(session, %error, "reports wait for the next session");
                    self.watch.refuse(session);
                }
                Err(error) if error.is_transient() => {
                    debug!(%error, reports = batch.reports.len(), "reports wait");
                }
                Err(error) => {
                    warn!(%error, reports = batch.reports.len(), "reports are refused; trying again");
                }
            }
            backoff.wait().await;
        }
    }
}

/// Keeps acknowledgements of reports in the batch; the others were not requested.
fn ours(batch: &ReportBatch, mut acknowledged: Vec<Acknowledgement>) -> Vec<Acknowledgement> {
    let sent: std::collections::HashSet<_> =
        batch.reports.iter().map(|report| (report.execution_id, report.sequence)).collect();
    acknowledged.retain(|ack| sent.contains(&(ack.execution_id, ack.sequence)));
    acknowledged
}
