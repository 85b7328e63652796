//! Inline inputs, and the paths to which a task may write.

use api_client::HistoryQuery;
use api_types::job::JobStateType;
use serde_json::{Value, json};
use testbed::harness::{Cluster, DataUrl, batch};

use crate::runs::{SIX_TRANSITIONS, transitions};

fn inline(url: &str, target: &str) -> Value {
    json!([{ "Source": { "Type": "inline", "Params": { "URL": url } }, "Target": target }])
}

#[tokio::test]
async fn an_inline_text_is_a_file_at_its_target() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &["cat", "/inputs/words.txt"]);
    job["Tasks"][0]["InputSources"] = inline(&DataUrl::text("grüße\nzwei\n"), "/inputs/words.txt");
    assert_eq!(cluster.run_one(&job).await.run_output.stdout, "grüße\nzwei\n");
}

#[tokio::test]
async fn an_inline_archive_is_a_directory_at_its_target() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &["wc", "/inputs"]);
    let url = DataUrl::archive(&[("one.txt", "a b c\n"), ("deep/two.txt", "d\ne f\n")]);
    job["Tasks"][0]["InputSources"] = inline(&url, "/inputs");
    let stdout = cluster.run_one(&job).await.run_output.stdout;
    assert_eq!(stdout, "2 3 6 /inputs/deep/two.txt\n1 3 6 /inputs/one.txt\n");
}

#[tokio::test]
async fn the_executions_of_a_job_share_one_input() {
    let Some(cluster) = Cluster::with_agents(2).await else { return };
    let mut job = batch(&cluster.image, &["wc", "--share", "/inputs/text"]);
    job["Count"] = json!(3);
    let text: String = (0..31).map(|number| format!("word {number}\n")).collect();
    job["Tasks"][0]["InputSources"] = inline(&DataUrl::text(&text), "/inputs/text");
    let lines: usize = cluster
        .run(&job)
        .await
        .iter()
        .filter_map(|execution| execution.run_output.stdout.split_whitespace().next())
        .map(|lines| lines.parse::<usize>().unwrap())
        .sum();
    assert_eq!(lines, 31);
}

#[tokio::test]
async fn inputs_are_read_only_and_result_paths_are_writable() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &["write", "/inputs/text", "mine"]);
    job["Tasks"][0]["InputSources"] = inline(&DataUrl::text("yours"), "/inputs/text");
    let refused = cluster.submit(&job).await;
    let mut job = batch(&cluster.image, &["write", "/outputs/text", "mine"]);
    job["Tasks"][0]["ResultPaths"] = json!([{ "Name": "outputs", "Path": "/outputs" }]);
    let written = cluster.run_one(&job).await;
    assert_eq!(written.run_output.stdout, "wrote /outputs/text\n");

    cluster.wait_for_job(refused, JobStateType::Failed).await;
    let output = cluster.execution(refused).await.run_output;
    assert!(output.stderr.contains("cannot write /inputs/text"), "{output:?}");
    assert_eq!(output.exit_code, 2);
}

/// The Engine makes `/etc` in every image, with its own files.
#[tokio::test]
async fn a_file_whose_target_is_a_directory_of_the_image_is_in_it_under_its_name() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let job = |target: &str| {
        let mut job = batch(&cluster.image, &["cat", "/etc/words.txt", "/etc/hostname"]);
        job["Tasks"][0]["InputSources"] = inline(&DataUrl::text("one\n"), target);
        job["Tasks"][0]["InputSources"][0]["Alias"] = json!("words.txt");
        job
    };
    let stdout = cluster.run_one(&job("/etc/")).await.run_output.stdout;
    assert!(stdout.starts_with("one\n") && stdout.len() > "one\n".len(), "{stdout}");

    // Without the slash too; the second time the answer of the image is known.
    for _ in 0..2 {
        let without_slash = cluster.run_one(&job("/etc")).await;
        let printed = &without_slash.run_output.stdout;
        assert!(printed.starts_with("one\n") && printed.len() == stdout.len(), "{printed}");
        let history = cluster.history(without_slash.job_id, &HistoryQuery::default()).await;
        assert_eq!(transitions(&history), SIX_TRANSITIONS);
    }
    // As `cp` does, a file is no directory.
    let mut onto_file = job("/etc/hostname");
    onto_file["Tasks"][0]["InputSources"] =
        inline(&DataUrl::archive(&[("x", "y")]), "/etc/hostname");
    let onto_file = cluster.submit(&onto_file).await;
    let message = cluster.wait_for_job(onto_file, JobStateType::Failed).await.state.message;
    assert!(message.contains("at '/etc/hostname'"), "{message}");
    assert!(!message.contains("executions/"), "no path of the node: {message}");
}

#[tokio::test]
async fn files_share_a_directory_under_different_names() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let file = |text: &str, alias: &str| {
        let mut inputs = inline(&DataUrl::text(text), "/in/");
        inputs[0]["Alias"] = json!(alias);
        inputs[0].take()
    };
    let mut job = batch(&cluster.image, &["cat", "/in/a", "/in/b", "/in/inline"]);
    job["Tasks"][0]["InputSources"] =
        json!([file("one\n", "a"), file("two\n", "b"), file("three\n", "")]);
    assert_eq!(cluster.run_one(&job).await.run_output.stdout, "one\ntwo\nthree\n");
}
