//! How long an outage of the service is borne by whoever waits anyway.

use std::time::{Duration, Instant};

use api_client::ClientError;

/// An orchestrator that restarts is back within seconds; one that is away for longer needs a
/// person, who should hear of it.
const OUTAGE_PATIENCE: Duration = Duration::from_secs(60);

/// Between two tries.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Counts from the first failure in a row.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    failing_since: Option<Instant>,
    answered_once: bool,
}

impl Patience {
    pub(crate) fn answered(&mut self) {
        self.failing_since = None;
        self.answered_once = true;
    }

    /// How long to wait before the next try, or the error when no further try is worth it.
    ///
    /// A service that has never answered is not there, which is said at once.
    pub(crate) fn forgive(&mut self, error: ClientError) -> Result<Duration, ClientError> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if !error.is_transient() || !self.answered_once || since.elapsed() >= OUTAGE_PATIENCE {
            return Err(error);
        }
        Ok(RETRY_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use api_types::{ApiError, Code};

    use super::*;

    fn refusal(code: Code) -> ClientError {
        ClientError::Api(ApiError::new(code, "no"))
    }

    #[test]
    fn an_outage_is_borne_only_after_a_first_answer() {
        let mut patience = Patience::default();
        assert!(patience.forgive(refusal(Code::ShuttingDown)).is_err());
        patience.answered();
        assert_eq!(patience.forgive(refusal(Code::ShuttingDown)).ok(), Some(RETRY_DELAY));
        assert!(patience.forgive(refusal(Code::JobNotFound)).is_err());
    }

    #[test]
    fn an_outage_is_not_borne_for_ever() {
        let mut patience = Patience::default();
        patience.answered();
        patience.failing_since = Instant::now().checked_sub(OUTAGE_PATIENCE);
        assert!(patience.forgive(refusal(Code::ShuttingDown)).is_err());
    }
}
