//! Schedules: no due time is lost or has two jobs, wherever the orchestrator is killed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api_client::JobsQuery;
use api_types::Timestamp;
use api_types::schedule::{PutSchedule, RunOutcome};
use failpoint::{CRASH, WALL_CLOCK_OFFSET_VARIABLE};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, eventually, noop};

/// Between a due time and its job, in this order.
const PLACES: [&str; 5] =
    ["schedule.due", "schedule.checked", "commit.before", "commit.within", "commit.after"];

const MINUTE: u64 = 60;

/// Seconds between a restart and the due time: enough to arm a failpoint.
const AHEAD: u64 = 8;

#[expect(clippy::disallowed_methods, reason = "the orchestrator's clock is set against it")]
fn wall_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Restarts the orchestrator, whose clock is then a few seconds before the next whole minute, and
/// later than at the restart before.
async fn restart_before_a_minute(cluster: &mut Cluster, round: u64) {
    cluster.orchestrator.kill();
    let now = wall_seconds();
    let offset = (2 * MINUTE - AHEAD - now % MINUTE) % MINUTE + round * 2 * MINUTE;
    cluster.orchestrator.set_variable(WALL_CLOCK_OFFSET_VARIABLE, &offset.to_string());
    cluster.orchestrator.restart().await;
}

/// The due times of all jobs of the schedule, in order.
async fn due_times(cluster: &Cluster) -> Vec<u64> {
    let query = JobsQuery { limit: Some(1000), ..JobsQuery::default() };
    let jobs = cluster.client().list_jobs(&query).await.expect("a list").jobs;
    let time = |text: &String| Timestamp::parse(text).expect("a time").0.unsigned_abs();
    let times = jobs.iter().filter_map(|job| job.spec.meta.get("service.org/scheduled-time"));
    let mut times: Vec<_> = times.map(|text| time(text) / 1_000_000_000).collect();
    times.sort_unstable();
    times
}

#[tokio::test]
async fn no_run_is_lost_and_none_happens_twice_wherever_the_orchestrator_is_killed() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().engines("noop"));
    let mut cluster = spec.start_without_docker().await;
    let body = PutSchedule {
        cron: "* * * * *".to_owned(),
        overlap: Some("Allow".to_owned()),
        catch_up: Some("All".to_owned()),
        job: Some(noop()),
        ..PutSchedule::default()
    };
    cluster.client().put_schedule(None, "minutes", &body).await.expect("it is put");
    for (round, place) in (1..).zip(PLACES) {
        restart_before_a_minute(&mut cluster, round).await;
        let caught_up = eventually("what was missed has jobs", async || {
            let times = due_times(&cluster).await;
            if times.len() as u64 >= 2 * round - 1 {
                Ok(times.len())
            } else {
                Err(format!("{times:?}"))
            }
        })
        .await;
        let crashes = cluster.orchestrator.crashes();
        cluster.orchestrator.failpoints().arm(place, CRASH).await;
        eventually(&format!("it is killed at {place}"), async || {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cluster.restart_crashed().await;
            match cluster.orchestrator.crashes() > crashes {
                true => Ok(()),
                false => Err("it runs".to_owned()),
            }
        })
        .await;
        eventually(&format!("after {place}, the due time has a job"), async || {
            let times = due_times(&cluster).await;
            if times.len() > caught_up { Ok(()) } else { Err(format!("{times:?}")) }
        })
        .await;
    }
    let times = due_times(&cluster).await;
    let is_next = |pair: &[u64]| pair[1] == pair[0] + MINUTE;
    assert!(times.windows(2).all(is_next), "each minute has one job: {times:?}");
    let runs = cluster.client().list_schedule_runs(None, "minutes").await.expect("runs").runs;
    assert!(runs.iter().all(|run| run.outcome == RunOutcome::Started), "{runs:?}");
}
