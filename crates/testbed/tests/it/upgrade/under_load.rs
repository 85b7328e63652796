//! Two releases on the same data, one after the other and back, while jobs are submitted.
//!
//! `just upgrade-test` builds the former release and names the directory of its programs.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api_client::{Client, ExecutionsQuery};
use api_types::JobId;
use api_types::job::JobStateType;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use testbed::harness::{binary, eventually, eventually_within, noop};

/// Names the directory with the programs of the former release.
const FORMER_PROGRAMS: &str = "UPGRADE_FROM";

/// Jobs that are accepted between one step of the upgrade and the next.
const BETWEEN_STEPS: usize = 100;

/// A loaded machine runs the last jobs within this time.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy)]
enum Release {
    Former,
    Current,
}

/// One machine with an orchestrator and two agents, each of either release.
struct Machine {
    former: PathBuf,
    directory: tempfile::TempDir,
    orchestrator: String,
}

/// A daemon that ends with this value.
struct Process(Child);

// === impl Machine ===

impl Machine {
    fn new(former: PathBuf) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self { former, directory, orchestrator: free_address() }
    }

    fn data(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start(
        &self,
        release: Release,
        program: &str,
        name: &str,
        settings: &[(&str, &str)],
    ) -> Process {
        let path = match release {
            Release::Former => self.former.join(program),
            Release::Current => binary(program).to_owned(),
        };
        let prefix = program.replace('-', "_").to_ascii_uppercase();
        let log = File::options().append(true).create(true).open(self.data(&format!("{name}.log")));
        let child = Command::new(path)
            .env_clear()
            .env(format!("{prefix}_DATA_DIR"), self.data(name))
            .envs(settings.iter().map(|(key, value)| (format!("{prefix}_{key}"), *value)))
            .stdin(Stdio::null())
            .stderr(log.expect("the directory is writable"))
            .spawn()
            .expect("it starts");
        Process(child)
    }

    fn orchestrator(&self, release: Release) -> Process {
        self.start(release, "orchestrator", "orchestrator", &[("LISTEN", &self.orchestrator)])
    }

    fn agent(&self, release: Release, name: &str) -> Process {
        let settings = [
            ("LISTEN", "127.0.0.1:0"),
            ("ORCHESTRATOR", &format!("http://{}", self.orchestrator)),
            ("ENGINES", "noop"),
        ];
        self.start(release, "compute-agent", name, &settings)
    }

    fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.orchestrator)).expect("a base URL")
    }

    fn logs(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.data(name)).unwrap_or_default();
        ["orchestrator.log", "one.log", "two.log"].map(read).concat()
    }
}

// === impl Process ===

impl Process {
    fn stop(mut self) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::TERM).expect("it runs");
        let status = self.0.wait().expect("it is a child");
        assert!(status.success(), "{status}");
    }

    /// It does not start on data that it could misread.
    async fn refused(mut self, machine: &Machine) {
        let status = eventually_within(PATIENCE, "the former release to give up", async || {
            let status = self.0.try_wait().expect("it is a child");
            status.ok_or_else(|| "it runs".to_owned())
        })
        .await;
        assert!(!status.success(), "{}", machine.logs());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have been stopped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address on loopback without a listener.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").to_string()
}

/// Submits one job after the other, each until it is accepted.
async fn submit(client: Client, accepted: Arc<AtomicUsize>, until: usize) -> Vec<JobId> {
    let mut jobs = Vec::new();
    for number in 0..until {
        let body = json!({ "Job": noop() }).to_string();
        let key = format!("upgrade-{number}");
        jobs.push(loop {
            match client.create_job_raw(body.clone().into(), Some(&key)).await {
                Ok(created) => break created.job_id,
                Err(error) if error.is_transient() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{key}: {error}"),
            }
        });
        accepted.fetch_add(1, Ordering::Relaxed);
    }
    jobs
}

async fn reached(accepted: &AtomicUsize, count: usize) {
    eventually_within(PATIENCE, "jobs to be accepted", async || {
        match accepted.load(Ordering::Relaxed) {
            enough if enough >= count => Ok(()),
            few => Err(format!("{few} of {count}")),
        }
    })
    .await;
}

/// Each of the jobs ran once.
async fn each_ran_once(client: &Client, jobs: &[JobId], machine: &Machine) {
    for job in jobs {
        let found = eventually_within(PATIENCE, "the job to be over", async || {
            let job = client.describe_job(*job).await.map_err(|error| error.to_string())?;
            let is_over = job.state.state_type.is_terminal();
            if is_over { Ok(job) } else { Err(format!("{:?}", job.state)) }
        })
        .await;
        let state = &found.state;
        assert_eq!(state.state_type, JobStateType::Completed, "{state:?} {}", machine.logs());
        let page = client.job_executions(*job, &ExecutionsQuery::default()).await.expect("a page");
        assert_eq!(page.executions.len(), 1, "{:#?}", page.executions);
    }
}

/// The backup that the upgrade made, if the former release needs it.
fn backup_in(data: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(data).expect("the data directory").map(|file| file.expect("a file"));
    let is_backup = |name: &str| name.starts_with("orchestrator-format-");
    let mut backups = files.filter(|file| file.file_name().to_str().is_some_and(is_backup));
    backups.next().map(|file| file.path())
}

/// Puts the backup of the upgrade in place of the database.
fn restore(backup: &Path, data: &Path) {
    fs::rename(backup, data.join("orchestrator.db")).expect("the backup is there");
    for file in ["orchestrator.db-wal", "orchestrator.db-shm"] {
        // A clean stop leaves neither.
        let _ = fs::remove_file(data.join(file));
    }
}

/// A part of a new job fails, which the former release cannot record.
async fn runs_a_part(machine: &Machine) {
    let mut job = noop();
    (job["Count"], job["MaxFailed"]) = (json!(4), json!(-1));
    job["Tasks"][0]["Engine"]["Params"] = json!({ "FailEvery": 2 });
    let client = machine.client();
    let created = client.create_job_raw(json!({ "Job": job }).to_string().into(), None).await;
    let id = created.expect("it is accepted").job_id;
    eventually_within(PATIENCE, "half of the job to fail", async || {
        let job = client.describe_job(id).await.map_err(|error| error.to_string())?;
        if job.state.failed_indexes == "1,3" { Ok(()) } else { Err(format!("{:?}", job.state)) }
    })
    .await;
}

async fn runs_a_job(machine: &Machine) {
    let body = json!({ "Job": noop() }).to_string();
    let created = machine.client().create_job_raw(body.into(), None).await.expect("it is accepted");
    each_ran_once(&machine.client(), &[created.job_id], machine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_releases_take_turns_under_load_and_nothing_is_lost() {
    let Some(former) = std::env::var_os(FORMER_PROGRAMS) else {
        return eprintln!("skipped: 'just upgrade-test' builds the former release for this");
    };
    let machine = Machine::new(former.into());
    let orchestrator = machine.orchestrator(Release::Former);
    let one = machine.agent(Release::Former, "one");
    let two = machine.agent(Release::Former, "two");
    let accepted = Arc::new(AtomicUsize::new(0));
    let load = tokio::spawn(submit(machine.client(), Arc::clone(&accepted), 5 * BETWEEN_STEPS));

    // Old agents work with the new orchestrator until it is their turn.
    reached(&accepted, BETWEEN_STEPS).await;
    let before_the_upgrade = accepted.load(Ordering::Relaxed);
    orchestrator.stop();
    let orchestrator = machine.orchestrator(Release::Current);
    reached(&accepted, 2 * BETWEEN_STEPS).await;
    one.stop();
    let one = machine.agent(Release::Current, "one");
    reached(&accepted, 3 * BETWEEN_STEPS).await;
    two.stop();
    let two = machine.agent(Release::Current, "two");
    let jobs = load.await.expect("every job is accepted");
    each_ran_once(&machine.client(), &jobs, &machine).await;
    runs_a_part(&machine).await;

    // Back again, the orchestrator first. Without a backup, everything is there; otherwise what was
    // accepted before the upgrade is.
    orchestrator.stop();
    let data = machine.data("orchestrator");
    let backup = backup_in(&data);
    if let Some(backup) = &backup {
        machine.orchestrator(Release::Former).refused(&machine).await;
        restore(backup, &data);
    }
    let is_restored = backup.is_some();
    let stay = if is_restored { &jobs[..before_the_upgrade] } else { &jobs };
    let _orchestrator = machine.orchestrator(Release::Former);
    eventually("the former release to answer", async || {
        machine.client().describe_job(jobs[0]).await.map_err(|error| error.to_string())
    })
    .await;
    if !is_restored {
        runs_a_job(&machine).await;
    }
    for process in [one, two] {
        process.stop();
    }
    let _one = machine.agent(Release::Former, "one");
    let _two = machine.agent(Release::Former, "two");
    each_ran_once(&machine.client(), stay, &machine).await;
    runs_a_job(&machine).await;
}
