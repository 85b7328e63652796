//! The agent's cache, as the process of a fetch sees it: by question and answer.

use std::future::Future;
use std::io;
use std::path::Path;

use tokio::sync::{Mutex, mpsc};

use crate::data::inputs::fetcher::order::{FromFetcher, ToFetcher};
use crate::data::inputs::placement::Quota;
use crate::data::retry::AttemptError;

#[derive(Debug)]
pub(crate) struct ParentCache {
    /// Sends a question to the agent.
    say: fn(&FromFetcher) -> io::Result<()>,
    answers: Mutex<mpsc::UnboundedReceiver<ToFetcher>>,
}

// === impl ParentCache ===

impl ParentCache {
    pub(crate) fn new(
        say: fn(&FromFetcher) -> io::Result<()>,
        answers: mpsc::UnboundedReceiver<ToFetcher>,
    ) -> Self {
        Self { say, answers: Mutex::new(answers) }
    }

    /// Fills `directory` from the agent's cache, or with `fetch`.
    pub(crate) async fn fill<F: Future<Output = Result<(), AttemptError>>>(
        &self,
        key: &str,
        directory: &Path,
        quota: &Quota,
        fetch: impl FnOnce() -> F,
    ) -> Result<(), AttemptError> {
        let (key, directory) = (key.to_owned(), directory.to_owned());
        match self.ask(&FromFetcher::Find { key, directory }).await? {
            ToFetcher::Linked { bytes } => quota.count(bytes),
            ToFetcher::Missing => {
                fetch().await?;
                self.ask(&FromFetcher::Fetched).await?;
                Ok(())
            }
            ToFetcher::Kept => Err(io::Error::other("an answer without a question").into()),
        }
    }

    async fn ask(&self, question: &FromFetcher) -> io::Result<ToFetcher> {
        let mut answers = self.answers.lock().await;
        (self.say)(question)?;
        answers.recv().await.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}
