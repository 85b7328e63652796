//! The audit log, repeated in the log of the process.

use api_types::audit::AuditRecord;

/// Repeats the record in the log, out of reach of an attacker who changes the database. Submissions
/// are too many for the default level.
pub(super) fn repeat(record: &AuditRecord) {
    let AuditRecord { chain, sequence, user, token_id, address, operation, object, hash, .. } =
        record;
    let (request_id, outcome) = (&record.request_id, record.outcome);
    if operation.starts_with("createJob") {
        tracing::debug!(
            target: "audit",
            %chain, sequence, user, token_id, address, operation, object, request_id, %outcome,
            hash,
            "audited"
        );
    } else {
        tracing::info!(
            target: "audit",
            %chain, sequence, user, token_id, address, operation, object, request_id, %outcome,
            hash,
            "audited"
        );
    }
}
