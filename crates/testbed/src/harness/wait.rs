//! Waiting for a state, with a bound.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Far more than is ever needed on an idle
/// machine: a test that fails for lack of time tells nothing.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks; short against what a container takes to start.
const INTERVAL: Duration = Duration::from_millis(25);

/// Looks again and again until the probe answers `Ok`; panics after [`PATIENCE`] with what the
/// probe said last.
pub async fn eventually<T>(what: &str, probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    eventually_within(PATIENCE, what, probe).await
}

/// [`eventually`] with a bound of its own, where the bound is what is tested.
pub async fn eventually_within<T>(
    patience: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begin = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if begin.elapsed() >= patience => {
                panic!("{what}: not within {} s; last seen: {seen}", patience.as_secs_f64());
            }
            Err(_) => tokio::time::sleep(INTERVAL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_probe_is_asked_until_it_is_content() {
        let mut asked = 0;
        let value = eventually("three", async || {
            asked += 1;
            if asked == 3 { Ok(asked) } else { Err(asked.to_string()) }
        })
        .await;
        assert_eq!(value, 3);
    }

    #[tokio::test]
    async fn giving_up_says_what_was_seen_last() {
        let waiting = tokio::spawn(eventually_within(Duration::ZERO, "the moon", async || {
            Err::<(), _>("a cloud".to_owned())
        }));
        let panic = waiting.await.unwrap_err().into_panic();
        let text = panic.downcast_ref::<String>().unwrap();
        assert_eq!(text, "the moon: not within 0 s; last seen: a cloud");
    }
}
