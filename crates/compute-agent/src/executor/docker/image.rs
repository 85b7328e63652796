//! Images: pulled only when they are absent, and once however many tasks wait for one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;
use tracing::info;

use super::error::{chain, is_not_found, of_engine};
use crate::execution::Failure;
use crate::executor::ExecutorError;

/// A pull of which nothing is heard for this long has failed.
const PULL_SILENCE: Duration = Duration::from_secs(120);

/// The images that are being looked for or pulled, each with a lock of its own.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    under_way: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

// === impl Pulls ===

impl Pulls {
    /// Makes sure that the image is there.
    pub(super) async fn ensure(&self, client: &Docker, image: &str) -> Result<(), ExecutorError> {
        if is_present(client, image).await? {
            return Ok(());
        }
        let lock = self.lock_of(image);
        let _pulling = lock.lock().await;
        if is_present(client, image).await? {
            return Ok(());
        }
        pull(client, image).await
    }

    fn lock_of(&self, image: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = under_way.get(image).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        under_way.insert(image.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

async fn is_present(client: &Docker, image: &str) -> Result<bool, ExecutorError> {
    match client.inspect_image(image).await {
        Ok(_) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(Error::DockerResponseServerError { status_code: 400, message }) => {
            let message = format!("'{image}' is not the name of an image: {message}");
            Err(ExecutorError::Failed(Failure::task(message)))
        }
        Err(error) => Err(of_engine(error)),
    }
}

async fn pull(client: &Docker, image: &str) -> Result<(), ExecutorError> {
    info!(image, "pulling an image");
    let (name, tag) = name_and_tag(image);
    let options = CreateImageOptions {
        from_image: Some(name.to_owned()),
        tag: tag.map(str::to_owned),
        ..Default::default()
    };
    let mut progress = std::pin::pin!(client.create_image(Some(options), None, None));
    loop {
        let step = match tokio::time::timeout(PULL_SILENCE, progress.next()).await {
            Ok(Some(step)) => step,
            Ok(None) => break,
            Err(_) => return Err(refused(image, &format!("no progress in {PULL_SILENCE:?}"))),
        };
        let step = step.map_err(|error| match error {
            Error::DockerResponseServerError { message, .. } => refused(image, &message),
            Error::DockerStreamError { error } => refused(image, &error),
            other => refused(image, &chain(&other)),
        })?;
        if let Some(message) = step.error_detail.and_then(|detail| detail.message) {
            return Err(refused(image, &message));
        }
    }
    info!(image, "pulled an image");
    Ok(())
}

fn refused(image: &str, reason: &str) -> ExecutorError {
    ExecutorError::Failed(Failure::node(format!(
        "image '{image}' is not on this node and cannot be pulled: {}; check its name, and that \
         the node reaches its registry, or load the image on the node",
        reason.trim()
    )))
}

/// The tag `latest` is said out loud: without one the Engine would pull every tag there is.
fn name_and_tag(image: &str) -> (&str, Option<&str>) {
    // A colon before the last slash belongs to the registry's port.
    let last = image.rfind('/').map_or(0, |slash| slash + 1);
    match image[last..].rfind([':', '@']) {
        Some(_) => (image, None),
        None => (image, Some("latest")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_pulled_as_latest() {
        assert_eq!(name_and_tag("alpine"), ("alpine", Some("latest")));
        assert_eq!(name_and_tag("host:5000/a/b"), ("host:5000/a/b", Some("latest")));
        assert_eq!(name_and_tag("host:5000/a/b:1"), ("host:5000/a/b:1", None));
        assert_eq!(name_and_tag("a@sha256:00"), ("a@sha256:00", None));
    }
}
