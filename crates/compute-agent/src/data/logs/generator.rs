//! Writes a stream as a function that sends.
//!
//! Nothing is spawned: the function runs only while the stream is polled, so a slow reader slows
//! it down, and it stops where it is when the stream is dropped.

use std::future::Future;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::mpsc;

/// Items buffered between the function and the reader, so that neither waits for every step of the
/// other.
const ITEMS_AHEAD: usize = 8;

/// The sending end. The function does not see a dropped reader; it is no longer polled.
pub(crate) struct Out<T>(mpsc::Sender<T>);

pub(crate) fn generate<T, F>(make: impl FnOnce(Out<T>) -> F) -> impl Stream<Item = T> + Send
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(ITEMS_AHEAD);
    let work = stream::once(make(Out(sender))).filter_map(|()| async { None });
    let items = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|item| (item, receiver))
    });
    stream::select(work, items)
}

// === impl Out ===

impl<T> Out<T> {
    pub(crate) async fn send(&self, item: T) {
        // The receiver is dropped together with the sender.
        drop(self.0.send(item).await);
    }
}
