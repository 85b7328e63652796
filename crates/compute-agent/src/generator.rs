//! A stream written as a function that sends.
//!
//! Nothing is spawned: the function goes on only while the stream is polled, so that whoever reads
//! slowly slows it down, and it ends where it stands when the stream is dropped.

use std::future::Future;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::mpsc;

/// Items between the function and the reader: enough that neither waits for each other's every
/// step.
const ITEMS_AHEAD: usize = 8;

/// Where the function sends to. That nobody reads any more it learns by not being polled.
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
        // The receiver is dropped together with whoever sends.
        drop(self.0.send(item).await);
    }
}
