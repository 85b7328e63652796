//! A store that the orchestrators of a test share: SQLite, and the row of its leader in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use api_types::dependency::Indexes;
use api_types::{JobId, Timestamp};
use control_plane::audit::Chains;
use control_plane::clock::Stamp;
use control_plane::records::{Record, RecordKind};
use control_plane::store::sqlite::{self, SqliteReads, SqliteStore};
use control_plane::store::{
    Beat, Candidate, Commit, Hold, Leader, LookupResults, Member, Membership, Outcome, Progress,
    RequestKey, Roll, SeenMember, SessionSign, Sighting, Store, StoreError, Term, Won,
};
use scheduler::change::{Live, LiveJobRow, NamedJob};
use scheduler::time::Moment;

pub(crate) const FORMAT: u32 = 1;

#[derive(Clone)]
pub(crate) struct SharedDatabase(Arc<Shared>);

struct Shared {
    row: Mutex<Row>,
    changed: Condvar,
    reads: Arc<SqliteReads>,
}

struct Row {
    store: SqliteStore,
    leader: Option<Leader>,
    /// The name of the process that leads.
    name: String,
    beat: u64,
    /// The leader whose commits and loads do not end.
    stopped: Option<String>,
    /// The leader whose load does not end.
    stopped_load: Option<String>,
    commits: u64,
    takeovers: u64,
    members: Vec<SeenMember>,
}

/// The process with this name, as a candidate and later as the writer.
pub(crate) struct Process {
    database: SharedDatabase,
    name: String,
    term: Term,
}

// === impl SharedDatabase ===

impl SharedDatabase {
    pub(crate) fn open(directory: &Path) -> Self {
        Self::try_open(directory).expect("open the database")
    }

    pub(crate) fn try_open(directory: &Path) -> Result<Self, StoreError> {
        let (store, reads) = sqlite::open(directory)?;
        let row = Row {
            store,
            leader: None,
            name: String::new(),
            beat: 0,
            stopped: None,
            stopped_load: None,
            commits: 0,
            takeovers: 0,
            members: Vec::new(),
        };
        Ok(Self(Arc::new(Shared { row: Mutex::new(row), changed: Condvar::new(), reads })))
    }

    pub(crate) fn candidate(&self, name: &str) -> Box<dyn Candidate> {
        let (database, name) = (self.clone(), name.to_owned());
        Box::new(Process { database, name, term: Term::default() })
    }

    /// Another process leads, of which nothing else exists.
    pub(crate) fn pretend(&self, leader: Leader) {
        let mut row = self.row();
        row.store.take().expect("SQLite has a next term");
        (row.leader, row.name) = (Some(leader), "pretended".to_owned());
    }

    /// The process that leads seems to load.
    pub(crate) fn beat(&self) {
        self.row().beat += 1;
    }

    /// What followers know of the leader.
    pub(crate) fn lead(&self) -> Option<Leader> {
        self.row().leader.clone()
    }

    pub(crate) fn membership(&self) -> Box<dyn Membership> {
        let (database, name) = (self.clone(), String::new());
        Box::new(Process { database, name, term: Term::default() })
    }

    /// The commits of this process hang, as if it were stopped in one.
    pub(crate) fn stop(&self, name: &str) {
        self.row().stopped = Some(name.to_owned());
    }

    /// The load of this process hangs.
    pub(crate) fn stop_load(&self, name: &str) {
        self.row().stopped_load = Some(name.to_owned());
    }

    pub(crate) fn go_on(&self) {
        let mut row = self.row();
        (row.stopped, row.stopped_load) = (None, None);
        self.0.changed.notify_all();
    }

    pub(crate) fn leader(&self) -> Option<String> {
        let row = self.row();
        row.leader.is_some().then(|| row.name.clone())
    }

    /// Takes the lead from the process that has it, for none.
    pub(crate) fn depose(&self) {
        let mut row = self.row();
        row.store.take().expect("SQLite has a next term");
        row.leader = None;
    }

    pub(crate) fn commits(&self) -> u64 {
        self.row().commits
    }

    pub(crate) fn beats(&self) -> u64 {
        self.row().beat
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        self.0.row.lock().expect("no holder of the lock panics")
    }

    /// The row once the process may use it.
    fn row_of(&self, stops: impl Fn(&Row) -> bool) -> MutexGuard<'_, Row> {
        let mut row = self.row();
        while stops(&row) {
            row = self.0.changed.wait(row).expect("no holder of the lock panics");
        }
        row
    }
}

// === impl Row ===

impl Row {
    fn own(&mut self, term: Term) -> Result<Progress, StoreError> {
        let progress = self.store.progress()?;
        if progress.term == term { Ok(progress) } else { Err(StoreError::Fenced) }
    }
}

fn now() -> i64 {
    control_plane::clock::Reading::now().wall.0
}

impl Candidate for Process {
    fn poll(&mut self) -> Result<Sighting, StoreError> {
        let mut row = self.database.row();
        let Progress { term, last_commit, stamp, .. } = row.store.progress()?;
        Ok(Sighting {
            term,
            last_commit,
            beat: row.beat,
            stamp,
            leader: row.leader.clone(),
            session: SessionSign::Unknown,
            connection: 1,
            wall: Timestamp(0),
            format: FORMAT,
            oldest: FORMAT,
        })
    }

    fn take_over(
        &mut self,
        seen: &Sighting,
        me: &Leader,
        _: Option<Stamp>,
    ) -> Result<Option<Won>, StoreError> {
        let database = self.database.clone();
        let mut row = database.row();
        let Progress { term, last_commit, .. } = row.store.progress()?;
        if (term, last_commit, row.beat) != (seen.term, seen.last_commit, seen.beat) {
            return Ok(None);
        }
        let progress = row.store.take()?;
        (row.leader, row.name) = (Some(me.clone()), self.name.clone());
        row.takeovers += 1;
        let process = || Self {
            database: self.database.clone(),
            name: self.name.clone(),
            term: progress.term,
        };
        let (store, hold) = (Box::new(process()), Hold::Lease(Box::new(process())));
        Ok(Some(Won { store, reads: database.0.reads.clone(), hold, progress }))
    }
}

impl Membership for Process {
    fn roll(&mut self) -> Result<Roll, StoreError> {
        let mut row = self.database.row();
        Ok(Roll {
            now: now(),
            term: row.store.progress()?.term,
            leader: row.leader.as_ref().map(|leader| leader.address.clone()),
            takeovers: row.takeovers,
            times_went_back: 0,
            server: "one".to_owned(),
            members: row.members.clone(),
        })
    }

    fn announce(&mut self, me: &Member) -> Result<(), StoreError> {
        let mut row = self.database.row();
        let seen_at = now();
        row.members.retain(|seen| seen.member.id != me.id);
        row.members.push(SeenMember { member: me.clone(), seen_at });
        Ok(())
    }

    fn keys(&mut self) -> Result<Vec<Record>, StoreError> {
        let mut records = self.database.row().store.records()?;
        records.retain(|record| record.key.kind == RecordKind::Key);
        Ok(records)
    }

    fn forget(&mut self, unseen_for: Duration) -> Result<u64, StoreError> {
        let mut row = self.database.row();
        let before = row.members.len();
        let oldest = now() - i64::try_from(unseen_for.as_nanos()).expect("a week");
        row.members.retain(|seen| seen.seen_at >= oldest);
        Ok((before - row.members.len()) as u64)
    }
}

impl Beat for Process {
    fn beat(&mut self) -> Result<(), StoreError> {
        let mut row = self.database.row();
        // The term may have been taken anew by the writer's half: the leader is the same.
        if row.leader.is_some() && row.name == self.name {
            row.beat += 1;
            return Ok(());
        }
        Err(StoreError::Fenced)
    }
}

impl Store for Process {
    fn take(&mut self) -> Result<Progress, StoreError> {
        let mut row = self.database.row();
        row.own(self.term)?;
        let progress = row.store.take()?;
        self.term = progress.term;
        Ok(progress)
    }

    fn progress(&mut self) -> Result<Progress, StoreError> {
        self.database.row().store.progress()
    }

    fn load(&mut self, job: &mut dyn FnMut(LiveJobRow)) -> Result<Live, StoreError> {
        let stops = |row: &Row| row.stopped_load.as_ref() == Some(&self.name);
        self.database.row_of(stops).store.load(job)
    }

    fn audit_chains(&mut self) -> Result<Chains, StoreError> {
        self.database.row().store.audit_chains()
    }

    fn records(&mut self) -> Result<Vec<Record>, StoreError> {
        self.database.row().store.records()
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<Outcome, StoreError> {
        let stops = |row: &Row| row.stopped.as_ref() == Some(&self.name);
        let mut row = self.database.row_of(stops);
        row.commits += 1;
        row.store.commit(commit)
    }

    fn named(&mut self, jobs: &BTreeMap<JobId, Indexes>) -> Result<Vec<NamedJob>, StoreError> {
        self.database.row().store.named(jobs)
    }

    fn lookup(
        &mut self,
        keys: &[RequestKey],
        oldest: Moment,
        jobs: &[JobId],
    ) -> Result<LookupResults, StoreError> {
        self.database.row().store.lookup(keys, oldest, jobs)
    }

    fn resign(&mut self) -> Result<(), StoreError> {
        let mut row = self.database.row();
        row.own(self.term)?;
        row.store.take()?;
        row.leader = None;
        Ok(())
    }
}
