//! The pages show every state with the same word as the other programs.

use api_types::history::NodeStateType;
use api_types::job::JobStateType;
use api_types::words::{
    ALL_EXECUTION_STATES, CPU_USED, DISK_USED, MEMORY_USED, execution_word, job_word, node_word,
};
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, ClusterSpec};

use super::browser::in_browser;

/// The words of lists of states: of jobs, executions and nodes.
const WORDS: &str = "
    const [jobs, executions, nodes, done] = arguments;
    import('/ui/state.js').then((state) => done([
        jobs.map((name) => state.jobLook(name).word),
        executions.map((number) => state.executionLook(number).word),
        nodes.map((name) => state.nodeWord(name).word),
    ]));
";

#[tokio::test]
async fn every_state_has_the_word_that_other_programs_show() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let asked =
        vec![json!(JobStateType::ALL), json!(ALL_EXECUTION_STATES), json!(NodeStateType::ALL)];
    let expected = json!([
        JobStateType::ALL.iter().copied().map(job_word).collect::<Vec<_>>(),
        ALL_EXECUTION_STATES.map(execution_word),
        NodeStateType::ALL.iter().copied().map(node_word).collect::<Vec<_>>(),
    ]);
    in_browser(&cluster, async |browser| {
        browser.visit("/nodes").await;
        let words: Value = browser.client.execute_async(WORDS, asked).await.expect("the words");
        assert_eq!(words, expected);
        for column in [CPU_USED, MEMORY_USED, DISK_USED] {
            browser.wait_for_text(column).await;
        }
        browser.assert_no_fault("vocabulary").await;
    })
    .await;
}
