//! The agent, as the process of a fetch sees it: by question and answer.

use std::future::Future;
use std::io;
use std::path::Path;

use tokio::sync::{Mutex, mpsc};

use super::order::{FromFetcher, ToFetcher};
use crate::data::inputs::placement::Quota;
use crate::data::retry::AttemptError;

#[derive(Debug)]
pub(crate) struct Parent {
    /// Sends a question to the agent.
    say: fn(&FromFetcher) -> io::Result<()>,
    answers: Mutex<mpsc::UnboundedReceiver<ToFetcher>>,
}

// === impl Parent ===

impl Parent {
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
            _ => Err(unasked().into()),
        }
    }

    pub(crate) async fn ask(&self, question: &FromFetcher) -> io::Result<ToFetcher> {
        let mut answers = self.answers.lock().await;
        (self.say)(question)?;
        answers.recv().await.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// The same, on a thread that may block.
    pub(crate) fn ask_blocking(&self, question: &FromFetcher) -> io::Result<ToFetcher> {
        let mut answers = self.answers.blocking_lock();
        (self.say)(question)?;
        answers.blocking_recv().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

pub(crate) fn unasked() -> io::Error {
    io::Error::other("an answer without a question")
}
