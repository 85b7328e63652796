//! Random faults of orchestrators and links, and everything that clients were told is true.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_types::job::JobStateType;
use futures_util::future::join_all;
use simulator::random::Random;
use testbed::harness::{
    AgentSpec, Cluster, ClusterSpec, Direct, Relay, SharedStore, Upstream, batch, eventually,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::clients::{Caller, Revisions, Submitted, follow_logs, work_until};
use super::measure::served_again;
use super::readers::EventReader;
use crate::chaos;

const ORCHESTRATORS: usize = 3;
const AGENTS: usize = 3;

/// Readers of all events.
const READERS: usize = 3;

/// A printing task prints a line in this time.
const LINE_MS: usize = 200;

/// Jobs whose whole history is checked.
const CHECKED_HISTORIES: usize = 50;

/// How long a fault lasts at most: less than the lease of a node, together with a takeover.
const LONGEST_MS: u64 = 5000;

#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    Pause,
    CutStore,
    ResetStore,
    CutAgent,
}

const FAULTS: [Fault; 5] =
    [Fault::Kill, Fault::Pause, Fault::CutStore, Fault::ResetStore, Fault::CutAgent];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_acknowledged_is_lost_for_some_seconds() {
    nothing_is_lost("lossless", Duration::from_secs(12), 10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long"]
async fn nothing_that_was_acknowledged_is_lost_in_five_minutes() {
    nothing_is_lost("lossless for long", Duration::from_mins(5), 50).await;
}

async fn nothing_is_lost(name: &str, duration: Duration, clients: usize) {
    let Some(store) = SharedStore::alone() else { return };
    let spec = ClusterSpec::new().sharing(store, ORCHESTRATORS);
    let Some(mut cluster) = spec.start().await else { return };
    let mut random = chaos::random(name);
    let (front, links) = (open(&cluster), [(); AGENTS].map(|()| open(&cluster)));
    for link in &links {
        let agent = AgentSpec::new()
            .engines("docker,noop")
            .cpu("8")
            .setting("COMPUTE_AGENT_ORCHESTRATOR", &format!("http://{}", link.address()));
        cluster.add_agent(&agent).await;
    }
    let client = cluster.orchestrator.client_at(front.address());
    let lines = usize::try_from(duration.as_millis()).expect("minutes") / LINE_MS;
    let mut printing = Vec::new();
    for _ in 0..AGENTS {
        let command = ["lines", &lines.to_string(), "stdout", &LINE_MS.to_string()];
        printing.push(cluster.submit(&batch(&cluster.image, &command)).await);
    }
    let followed: Vec<_> =
        printing.iter().map(|job| follow_logs(client.clone(), *job, lines)).collect();
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(EventReader::start(&client).await);
    }
    let terms = watch_terms(cluster.store().direct().clone());

    let deadline = Instant::now() + duration;
    let (caller, revisions) = (Caller::new(client.base_url()), Revisions::default());
    let working: Vec<_> = (0..clients)
        .map(|number| {
            let random = Random::new(random.within(0..u64::MAX));
            let revisions = Arc::clone(&revisions);
            tokio::spawn(work_until(deadline, caller.clone(), random, number, revisions))
        })
        .collect();
    let faults = fail_until(deadline, &mut cluster, &links, &mut random).await;
    let mut submitted = Vec::new();
    for client in working {
        submitted.extend(client.await.expect("a client found nothing untrue"));
    }

    // The harness submits one after each fault.
    let others = printing.len() + faults.values().sum::<usize>();
    check_jobs(&cluster, &caller, &submitted, others).await;
    for reader in &readers {
        assert!(reader.has_all(&cluster).await.gaps.is_empty(), "nothing was lost");
    }
    let expected: Vec<_> = (0..lines).map(|line| format!("line {line}")).collect();
    for received in followed {
        assert_eq!(received.await.expect("it ends"), expected, "no line is lost or repeated");
    }
    no_node_was_lost(&cluster).await;
    audit_verifies(&cluster).await;
    assert!(!terms.is_finished(), "a commit number had two terms");
    terms.abort();
    eprintln!("{name}: {} jobs; faults: {faults:?}", submitted.len());
    assert!(!submitted.is_empty() && !faults.is_empty());
}

/// A load balancer that goes to any orchestrator that accepts.
fn open(cluster: &Cluster) -> Relay {
    let addresses = (0..ORCHESTRATORS).map(|number| cluster.orchestrator_at(number).address());
    Relay::open(Upstream::Any(addresses.collect()))
}

/// One fault after the other, until the deadline; then everything works. Returns how many there were.
async fn fail_until(
    deadline: Instant,
    cluster: &mut Cluster,
    links: &[Relay],
    random: &mut Random,
) -> BTreeMap<String, usize> {
    let mut faults = BTreeMap::new();
    while Instant::now() < deadline {
        let target = match random.chance(500) {
            true => cluster.leader().await,
            false => usize::try_from(random.within(0..ORCHESTRATORS as u64)).expect("an index"),
        };
        let fault = random.one_of(&FAULTS);
        let lasting = random.millis(200..LONGEST_MS);
        match fault {
            Fault::Kill => {
                cluster.orchestrator_at_mut(target).kill();
                tokio::time::sleep(lasting / 2).await;
                cluster.orchestrator_at_mut(target).start_again();
            }
            Fault::Pause => {
                cluster.orchestrator_at(target).pause();
                tokio::time::sleep(lasting).await;
                cluster.orchestrator_at(target).resume();
            }
            Fault::CutStore => {
                cluster.relay(target).cut();
                tokio::time::sleep(lasting).await;
                cluster.relay(target).heal();
            }
            Fault::ResetStore => cluster.relay(target).reset(),
            Fault::CutAgent => {
                links[target].cut();
                tokio::time::sleep(lasting).await;
                links[target].heal();
            }
        }
        *faults.entry(format!("{fault:?}")).or_default() += 1;
        // Everybody serves again before the next one: two at a time may leave no one to take over.
        served_again(cluster, std::time::Instant::now()).await;
        start_the_gone(cluster).await;
    }
    faults
}

/// Starts every orchestrator again that has lost the lead and ended.
pub(crate) async fn start_the_gone(cluster: &mut Cluster) {
    for number in 0..cluster.orchestrators() {
        cluster.orchestrator_at_mut(number).start_if_crashed().await;
    }
}

/// Each commit number belongs to one term, and no number goes back.
fn watch_terms(direct: Direct) -> JoinHandle<()> {
    tokio::spawn(async move {
        let terms = Mutex::<BTreeMap<i64, Vec<u8>>>::default();
        let session = direct.session().await.expect("the database answers");
        let mut last = 0;
        loop {
            let row = "SELECT last_commit, term, began_after FROM progress";
            let row = session.query_one(row, &[]).await.expect("the database answers");
            let (number, term, began_after) = (row.get::<_, i64>(0), row.get(1), row.get(2));
            assert!(number >= last, "{number} after {last}");
            last = number;
            if number > began_after {
                let mut terms = terms.lock().expect("one task has it");
                let first: &Vec<u8> = terms.entry(number).or_insert_with(|| Vec::clone(&term));
                assert_eq!(first, &term, "the term of commit {number}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}

/// Every acknowledged job exists once and with its first answer, and ran once.
pub(crate) async fn check_jobs(
    cluster: &Cluster,
    caller: &Caller,
    submitted: &[Submitted],
    others: usize,
) {
    for some in submitted.chunks(50) {
        let again = some.iter().map(|one| caller.submit(&one.job, &one.key));
        for (one, again) in some.iter().zip(join_all(again).await) {
            assert_eq!(again, one.answer, "{}", one.key);
        }
    }
    let session = cluster.store().direct().session().await.expect("the database answers");
    eventually("every job has ended", async || {
        let live = session.query_one("SELECT count(*) FROM job_run WHERE live = 1", &[]).await;
        match live.map_err(|error| error.to_string())?.get::<_, i64>(0) {
            0 => Ok(()),
            live => Err(format!("{live} are live")),
        }
    })
    .await;
    let again =
        "SELECT count(*) FROM (SELECT job FROM execution GROUP BY job HAVING count(*) > 1) AS x";
    let again: i64 = session.query_one(again, &[]).await.expect("a count").get(0);
    assert_eq!(again, 0, "no task has run twice");
    let jobs: i64 =
        session.query_one("SELECT count(DISTINCT id) FROM job", &[]).await.expect("a count").get(0);
    let expected = submitted.len() + others;
    assert_eq!(usize::try_from(jobs), Ok(expected), "each job is stored once");
    let step = (submitted.len() / CHECKED_HISTORIES).max(1);
    for one in submitted.iter().step_by(step) {
        let ending = cluster.ending(one.id).await;
        let expected = match one.is_stopped {
            true => (JobStateType::Stopped, 0),
            false => (JobStateType::Completed, 1),
        };
        assert_eq!((ending.state, ending.executions), expected, "{}", one.key);
    }
}

pub(crate) async fn no_node_was_lost(cluster: &Cluster) {
    for agent in &cluster.agents {
        let history = cluster.client().node_history(agent.node_id(), &Default::default()).await;
        let history = history.expect("the node has a history").history;
        let lost = history.iter().find(|event| event.comment.contains("lease ended"));
        assert!(lost.is_none(), "{lost:?}");
    }
}

async fn audit_verifies(cluster: &Cluster) {
    let url = cluster.client().base_url().to_owned();
    let verify = move || {
        let jobctl = programs::binary("jobctl");
        Command::new(jobctl).args(["--url", &url, "audit", "verify"]).output()
    };
    let output = tokio::task::spawn_blocking(verify).await.expect("it ends").expect("it runs");
    assert!(output.status.success(), "{output:?}");
}
