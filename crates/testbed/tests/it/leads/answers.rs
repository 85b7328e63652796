//! What becomes of a submission whose answer was lost.

use std::time::{Duration, Instant};

use failpoint::CRASH;
use testbed::harness::{eventually, noop};

use super::measure::{http, row, submit};
use super::processes::cluster;

#[tokio::test]
async fn the_next_one_gives_the_answer_that_was_lost_after_the_commit() {
    row("answer lost after the commit", Duration::from_secs(5), async || {
        let cluster = cluster(2).await?;
        let (http, job) = (http(), noop());
        let urls = [0, 1].map(|number| cluster.orchestrator_at(number).base_url().to_owned());
        cluster.orchestrator_at(0).failpoints().arm("answer", CRASH).await;
        let since = Instant::now();
        let lost = submit(&http, &urls[0], &job, "lost").await;
        assert!(lost.is_err(), "it ended before it answered: {lost:?}");
        assert_eq!(cluster.orchestrator_at(0).failpoints().hits("answer", CRASH), 1);
        let session = cluster.store().direct().session().await.expect("the database answers");
        let jobs = "SELECT id FROM job";
        let stored = session.query(jobs, &[]).await.expect("the database answers");
        assert_eq!(stored.len(), 1, "it was stored");

        let again = eventually("the next one answers", async || {
            submit(&http, &urls[1], &job, "lost").await.map_err(|refusal| format!("{refusal:?}"))
        })
        .await;
        let took = since.elapsed();
        let now = session.query(jobs, &[]).await.expect("the database answers");
        assert_eq!(now.len(), 1, "it is stored once");
        let hex: String =
            now[0].get::<_, Vec<u8>>(0).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(again.id.to_string().replace('-', "").ends_with(&hex), "{again:?} {hex}");
        Some(took)
    })
    .await;
}
