//! Retries of a waiting command during an outage of the service.

use std::time::{Duration, Instant};

use api_client::ClientError;

/// Longest tolerated outage: an orchestrator restarts within seconds, and the user should learn
/// about a longer outage.
const MAX_OUTAGE: Duration = Duration::from_secs(60);

/// Delay between two attempts.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Tracks consecutive failures.
#[derive(Debug, Default)]
pub(crate) struct Reconnect {
    failing_since: Option<Instant>,
    connected_once: bool,
}

impl Reconnect {
    pub(crate) fn succeeded(&mut self) {
        self.failing_since = None;
        self.connected_once = true;
    }

    /// The delay before the next attempt, or the error when another attempt is pointless.
    ///
    /// A service that has never responded is reported immediately.
    pub(crate) fn retry_delay(&mut self, error: ClientError) -> Result<Duration, ClientError> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if !error.is_transient() || !self.connected_once || since.elapsed() >= MAX_OUTAGE {
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
    fn an_outage_is_tolerated_only_after_a_first_response() {
        let mut reconnect = Reconnect::default();
        assert!(reconnect.retry_delay(refusal(Code::ShuttingDown)).is_err());
        reconnect.succeeded();
        assert_eq!(reconnect.retry_delay(refusal(Code::ShuttingDown)).ok(), Some(RETRY_DELAY));
        assert!(reconnect.retry_delay(refusal(Code::JobNotFound)).is_err());
    }

    #[test]
    fn an_outage_is_not_tolerated_forever() {
        let mut reconnect = Reconnect::default();
        reconnect.succeeded();
        reconnect.failing_since = Instant::now().checked_sub(MAX_OUTAGE);
        assert!(reconnect.retry_delay(refusal(Code::ShuttingDown)).is_err());
    }
}
