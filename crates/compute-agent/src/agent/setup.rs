//! What an agent opens before it starts, in an order that leaves nothing half done.

use std::net::SocketAddr;

use agent_core::Contents;
use agent_core::execution::Phase;
use agent_core::node_state::Limits;
use api_types::NodeId;
use api_types::quantity::Resources;
use tokio::net::TcpListener;
use tracing::debug;

use super::StartError;
use crate::host::clock;
use crate::host::data_dir::{DataDir, ExecutionDirs};
use crate::host::gpu::Inventory;
use crate::host::settings::Settings;
use crate::node::capacity;
use crate::node::ledger::Ledger;
use crate::session::enrolment::Enrolment;

/// The resources that an agent needs before it can start.
pub(super) struct Setup {
    pub(super) data_dir: DataDir,
    pub(super) ledger: Ledger,
    pub(super) contents: Contents,
    pub(super) gpus: Inventory,
    pub(super) capacity: Resources,
    pub(super) listener: TcpListener,
    pub(super) listen_addr: SocketAddr,
    pub(super) enrolment: Enrolment,
}

// === impl Setup ===

impl Setup {
    pub(super) async fn open(settings: &Settings) -> Result<Self, StartError> {
        let data_dir = DataDir::open(&settings.data_dir)?;
        clock::resume(&data_dir.clock_note());
        let mut ledger = Ledger::open(&data_dir.ledger())?;
        let mut contents = ledger.load(&data_dir.ledger())?;
        measure_kept(&mut contents, &data_dir.executions());
        let gpus = Inventory::detect(&settings.gpu).await;
        let capacity = capacity::of_this_machine(&settings.capacity, data_dir.root(), gpus.count())
            .map_err(StartError::Capacity)?;
        let listen_error = |source| StartError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(listen_error)?;
        let listen_addr = listener.local_addr().map_err(listen_error)?;
        let bound = (!is_empty(&contents)).then(|| ledger.node_id());
        let enrolment = Enrolment::obtain(settings, &data_dir, bound).await?;
        if let Some(enrolled) = enrolment.node_id() {
            adopt(&mut ledger, &contents, enrolled)?;
        }
        Ok(Self { data_dir, ledger, contents, gpus, capacity, listener, listen_addr, enrolment })
    }
}

pub(super) fn limits(settings: &Settings, capacity: Resources) -> Limits {
    let retain_bytes = settings.retain_finished_bytes;
    Limits { capacity, retain: settings.retain_finished(), retain_bytes }
}

/// Measures what finished executions keep on the node, where the ledger does not say: those of an
/// earlier release, and those that ended without a collection.
fn measure_kept(contents: &mut Contents, dirs: &ExecutionDirs) {
    for execution in &mut contents.executions {
        if let Phase::Done { kept_bytes: kept_bytes @ None, .. } = &mut execution.phase {
            match dirs.for_execution(execution.id).kept_bytes() {
                Ok(bytes) => *kept_bytes = Some(bytes),
                Err(error) => {
                    debug!(execution = %execution.id, %error, "cannot measure its output")
                }
            }
        }
    }
}

/// Gives the node the ID in its certificate.
fn adopt(ledger: &mut Ledger, contents: &Contents, enrolled: NodeId) -> Result<(), StartError> {
    let own = ledger.node_id();
    if own == enrolled {
        return Ok(());
    }
    if !is_empty(contents) {
        return Err(StartError::OtherNode { own, enrolled });
    }
    Ok(ledger.set_node_id(enrolled)?)
}

fn is_empty(contents: &Contents) -> bool {
    contents.executions.is_empty() && contents.reports.is_empty()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use agent_core::Execution;
    use api_types::Timestamp;
    use api_types::execution::ComputeState;

    use super::*;
    use crate::testing::{execution_id, work};

    #[test]
    fn what_an_earlier_release_kept_is_measured() {
        let root = tempfile::tempdir().unwrap();
        let dirs = DataDir::open(root.path()).unwrap().executions();
        let done = |number: u128, kept_bytes| {
            let (id, at) = (execution_id(number), Timestamp(1));
            let (mut execution, _) =
                Execution::offered(id, Arc::clone(&work()), Ok(Vec::new()), at);
            execution.phase = Phase::Done {
                state: ComputeState::Completed,
                message: String::new(),
                finished_at: at,
                unpublished: false,
                kept_bytes,
                outcome: None,
            };
            execution
        };
        let executions = vec![done(1, None), done(2, Some(9)), done(3, None)];
        for id in [1, 2].map(execution_id) {
            fs::create_dir_all(dirs.for_execution(id).results()).unwrap();
            fs::write(dirs.for_execution(id).stdout(), "12345").unwrap();
            fs::write(dirs.for_execution(id).results().join("file"), "123").unwrap();
        }
        let mut contents = Contents { executions, ..Contents::default() };
        measure_kept(&mut contents, &dirs);
        let kept: Vec<_> = contents
            .executions
            .iter()
            .map(|execution| match execution.phase {
                Phase::Done { kept_bytes, .. } => kept_bytes,
                _ => None,
            })
            .collect();
        assert_eq!(kept, [Some(8), Some(9), Some(0)]);
    }
}
