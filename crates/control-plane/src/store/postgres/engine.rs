//! The runtime of the writer, and how a blocking caller waits on it.
//!
//! Sessions live on its one thread, so that an attempt to commit continues after its caller has
//! given up waiting. A caller's own future runs on the caller's thread, which may belong to another
//! runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, unconstrained};

use crate::store::StoreError;

#[derive(Clone)]
pub(super) struct Engine(Arc<Inner>);

/// Taken only when it ends.
struct Inner(Option<Runtime>);

/// Wakes the thread that waits.
struct Unpark(Thread);

// === impl Engine ===

impl Engine {
    pub(super) fn start() -> Result<Self, StoreError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|source| StoreError::Io { path: "the runtime of the store".into(), source })?;
        Ok(Self(Arc::new(Inner(Some(runtime)))))
    }

    /// Runs it on the runtime's own thread.
    pub(super) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let runtime = self.0.0.as_ref().expect("the runtime ends with its last handle");
        runtime.spawn(future)
    }

    /// Blocks until the future is ready. Another runtime's budget does not count here: a future that
    /// yielded to it would never continue.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _context = self.0.0.as_ref().map(Runtime::enter);
        let mut future = pin!(unconstrained(future));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Drop for Inner {
    /// The last handle may be dropped where blocking is not allowed.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
