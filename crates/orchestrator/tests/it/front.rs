//! A follower in front of the orchestrator of a test, whose port the test then uses.
//!
//! With [`VARIABLE`] in the environment, every [`crate::server::Server`] has one: see
//! `leading::groups`, which runs tests of this program again.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use api_types::Timestamp;
use control_plane::clock::Stamp;
use control_plane::records::Record;
use control_plane::store::{
    Candidate, Leader, Member, Membership, Roll, SessionSign, Sighting, StoreError, Term, Won,
};
use orchestrator::{Follower, Orchestrator, Settings, SharedStore};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::leading::shared::{FORMAT, SharedDatabase};
use crate::server::PATIENCE;

pub(crate) const VARIABLE: &str = "THROUGH_FOLLOWER";

/// Passes connections on until it is dropped.
pub(crate) struct Front {
    address: SocketAddr,
    following: JoinHandle<()>,
    _directory: TempDir,
}

/// Sees a leader that lives for ever.
struct Watching {
    leader: Leader,
    beat: u64,
}

/// Starts an orchestrator, with a follower in front if the environment says so.
pub(crate) async fn start(settings: &Settings) -> (Orchestrator, Option<Front>) {
    if std::env::var_os(VARIABLE).is_none() {
        let started = Orchestrator::start(settings.clone()).await;
        return (started.expect("start the orchestrator"), None);
    }
    let follower = Follower::bind(settings.clone()).await.expect("bind the listener");
    let database = open(&settings.data_dir).await;
    let advertise = follower.address().to_string();
    let (candidate, membership) = (database.candidate("leader"), database.membership());
    let store = SharedStore { candidate, membership, advertise, format: FORMAT };
    let mut follower = follower.sharing(store);
    let taken = follower.win().await.expect("it wins");
    let leader = database.lead().expect("it leads");
    drop(database);
    let orchestrator = Orchestrator::lead(follower, taken).await.expect("it leads");
    (orchestrator, Some(Front::before(leader, settings).await))
}

/// A process that has just ended may still hold the files for a moment.
async fn open(data_dir: &Path) -> SharedDatabase {
    let begun = Instant::now();
    loop {
        match SharedDatabase::try_open(data_dir) {
            Ok(database) => return database,
            Err(error) if begun.elapsed() > PATIENCE => panic!("open the database: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

// === impl Front ===

impl Front {
    /// Returns once connections are passed on.
    async fn before(leader: Leader, settings: &Settings) -> Self {
        let directory = tempfile::tempdir().expect("make a directory");
        let settings = Settings {
            data_dir: directory.path().join("data"),
            join_token_file: Default::default(),
            ..settings.clone()
        };
        let follower = Follower::bind(settings).await.expect("bind the listener");
        let address = follower.address();
        let (candidate, membership) = (Box::new(Watching { leader, beat: 0 }), Box::new(Unlisted));
        let store =
            SharedStore { candidate, membership, advertise: address.to_string(), format: FORMAT };
        let mut follower = follower.sharing(store);
        let following = tokio::spawn(async move {
            follower.win().await.map(drop).expect_err("it never wins");
        });
        Self { address, following, _directory: directory }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl Candidate for Watching {
    fn poll(&mut self) -> Result<Sighting, StoreError> {
        self.beat += 1;
        Ok(Sighting {
            term: Term(1),
            last_commit: 1,
            beat: self.beat,
            stamp: None,
            leader: Some(self.leader.clone()),
            session: SessionSign::Present,
            connection: 1,
            wall: Timestamp(0),
            format: FORMAT,
            oldest: FORMAT,
        })
    }

    fn take_over(
        &mut self,
        _: &Sighting,
        _: &Leader,
        _: Option<Stamp>,
    ) -> Result<Option<Won>, StoreError> {
        unreachable!("the leader lives")
    }
}

/// A follower of which the leader knows nothing.
struct Unlisted;

impl Membership for Unlisted {
    fn roll(&mut self) -> Result<Roll, StoreError> {
        Ok(Roll::default())
    }

    fn announce(&mut self, _: &Member) -> Result<(), StoreError> {
        Ok(())
    }

    fn keys(&mut self) -> Result<Vec<Record>, StoreError> {
        Ok(Vec::new())
    }

    fn forget(&mut self, _: Duration) -> Result<u64, StoreError> {
        Ok(0)
    }
}
