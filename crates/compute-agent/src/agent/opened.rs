//! What an agent opens before it starts, in an order that leaves nothing half done.

use std::net::SocketAddr;

use agent_core::Contents;
use api_types::NodeId;
use api_types::quantity::Resources;
use tokio::net::TcpListener;

use super::StartError;
use crate::host::clock;
use crate::host::data_dir::DataDir;
use crate::host::gpu::Inventory;
use crate::host::settings::Settings;
use crate::node::capacity;
use crate::node::ledger::Ledger;
use crate::session::enrolment::Enrolment;

/// The resources that an agent needs before it can start.
pub(super) struct Opened {
    pub(super) data_dir: DataDir,
    pub(super) ledger: Ledger,
    pub(super) contents: Contents,
    pub(super) gpus: Inventory,
    pub(super) capacity: Resources,
    pub(super) listener: TcpListener,
    pub(super) listen_addr: SocketAddr,
    pub(super) enrolment: Enrolment,
}

// === impl Opened ===

impl Opened {
    pub(super) async fn open(settings: &Settings) -> Result<Self, StartError> {
        let data_dir = DataDir::open(&settings.data_dir)?;
        clock::resume(&data_dir.clock_note());
        let mut ledger = Ledger::open(&data_dir.ledger())?;
        let contents = ledger.load(&data_dir.ledger())?;
        let gpus = Inventory::detect(&settings.gpu).await;
        let capacity = capacity::of_this_machine(&settings.capacity, data_dir.root(), gpus.count())
            .map_err(StartError::Capacity)?;
        let listen_error = |source| StartError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(listen_error)?;
        let listen_addr = listener.local_addr().map_err(listen_error)?;
        let bound = (!is_empty(&contents)).then(|| ledger.node_id());
        let enrolment = Enrolment::of(settings, &data_dir, bound).await?;
        if let Some(enrolled) = enrolment.node_id() {
            adopt(&mut ledger, &contents, enrolled)?;
        }
        Ok(Self { data_dir, ledger, contents, gpus, capacity, listener, listen_addr, enrolment })
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
