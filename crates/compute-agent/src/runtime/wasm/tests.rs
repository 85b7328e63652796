//! How programs wait for their turn.

use std::sync::Arc;

use agent_core::execution::Failure;
use api_types::engine::EngineType;
use futures_util::future::ready;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::*;
use crate::data::credentials::Granted;
use crate::data::progress::{Progress, ProgressSink};
use crate::data::secrets::ExecutionSecrets;
use crate::testing::{execution_id, plain_work};

#[derive(Debug)]
struct Recorded(mpsc::UnboundedSender<String>);

impl ProgressSink for Recorded {
    fn progress(&self, _: ExecutionId, message: String) -> BoxFuture<'_, ()> {
        self.0.send(message).expect("the test waits for it");
        ready(()).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_waits_for_others_to_end_says_so() {
    let root = tempfile::tempdir().unwrap();
    let data_dir = DataDir::open(root.path()).unwrap();
    let wasm = Wasm::new(&data_dir, &Settings::default(), Tasks::new(Handle::current()));
    let mut work = plain_work();
    let _held: Vec<_> =
        std::iter::from_fn(|| wasm.permits.try_take(&work.namespace)).take(MAX_RUNS).collect();
    let (progress, mut messages) = mpsc::unbounded_channel();
    work.task.engine.engine_type = EngineType::Wasm;
    let run = Run {
        id: execution_id(1),
        node_id: NodeId::from_uuid(Uuid::from_u128(1)),
        work: Arc::new(work),
        granted: Granted::default(),
        inputs: Vec::new(),
        secrets: ExecutionSecrets::default(),
        modules: Vec::new(),
        gpus: Vec::new(),
        progress: Progress::new(execution_id(1), Arc::new(Recorded(progress))),
    };
    let cancel = CancellationToken::new();
    tokio::select! {
        made = wasm.make(&run, &cancel) => panic!("{:?}", made.map_err(Failure::from)),
        message = messages.recv() => {
            let said = "waits for its namespace's share of the node's 512 wasm programs";
            assert_eq!(message.as_deref(), Some(said));
        }
    }
}
