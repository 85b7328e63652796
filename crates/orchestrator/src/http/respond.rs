//! Complete responses, and work that must not delay other connections.

use super::api::Handled;
use super::error::Failure;

/// A complete response.
pub(super) fn json<T: serde::Serialize>(value: &T) -> Handled {
    Ok(daemon::http::json(value))
}

/// The same for a value that may be large.
pub(super) async fn rendered<T: serde::Serialize + Send + 'static>(value: T) -> Handled {
    blocking(move || json(&value)).await?
}

/// Work on a blocking thread, where it does not delay other connections.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::Internal { cause: format!("work on a request: {error}") })
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    /// Renders as whether that happens on this thread.
    struct IsOn(std::thread::ThreadId);

    impl serde::Serialize for IsOn {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bool(std::thread::current().id() == self.0)
        }
    }

    #[tokio::test]
    async fn a_large_value_is_rendered_on_another_thread() {
        let here = IsOn(std::thread::current().id());
        let response = rendered(here).await.ok().unwrap();
        assert_eq!(to_bytes(response.into_body(), 10).await.unwrap(), "false");
    }
}
