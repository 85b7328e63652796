//! Waiting for a state, with a bound.

use std::time::{Duration, Instant};

/// Default time limit of a wait. Far longer than needed on an idle machine, since a failure for lack
/// of time proves nothing.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The pause after the first probe; short compared to the start of a container.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// The pause after many: probes are requests, and other tests need the cores.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A test waits by at most this share longer than it has to.
const SHARE: u32 = 16;

/// Repeats the probe until it returns `Ok`; panics after [`TIMEOUT`] with the last `Err`.
pub async fn eventually<T>(what: &str, probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    eventually_within(TIMEOUT, what, probe).await
}

/// [`eventually`] with a given time limit, for tests of the limit itself.
pub async fn eventually_within<T>(
    timeout: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begin = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if begin.elapsed() >= timeout => {
                panic!("{what}: not within {} s; last seen: {seen}", timeout.as_secs_f64());
            }
            Err(_) => {
                let pause = (begin.elapsed() / SHARE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                tokio::time::sleep(pause).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_probe_is_repeated_until_it_succeeds() {
        let mut calls = 0;
        let value = eventually("three", async || {
            calls += 1;
            if calls == 3 { Ok(calls) } else { Err(calls.to_string()) }
        })
        .await;
        assert_eq!(value, 3);
    }

    #[tokio::test]
    async fn a_timeout_reports_the_last_observation() {
        let waiting = tokio::spawn(eventually_within(Duration::ZERO, "the moon", async || {
            Err::<(), _>("a cloud".to_owned())
        }));
        let panic = waiting.await.unwrap_err().into_panic();
        let text = panic.downcast_ref::<String>().unwrap();
        assert_eq!(text, "the moon: not within 0 s; last seen: a cloud");
    }
}
