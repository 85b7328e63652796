//! The one table of words for states is the one that the programs show and the documents list.
//!
//! The pages are compared in a browser; `jobctl` and the demo where they render a state.

use std::collections::BTreeSet;
use std::fs;

use api_types::history::NodeStateType;
use api_types::job::JobStateType;
use api_types::words::{ALL_EXECUTION_STATES, WAITING, execution_word, job_word, node_word};

use crate::tidy::{assert_none, files, root};

fn words() -> BTreeSet<&'static str> {
    let jobs = JobStateType::ALL.iter().copied().map(job_word);
    let executions = ALL_EXECUTION_STATES.into_iter().map(execution_word);
    let nodes = NodeStateType::ALL.iter().copied().map(node_word);
    jobs.chain(executions).chain(nodes).collect()
}

#[test]
fn the_page_of_jobctl_lists_every_word() {
    let page = fs::read_to_string(root().join("docs/jobctl.md")).expect("the page of jobctl");
    let words = words().into_iter().chain([WAITING]);
    let missing: Vec<_> =
        words.filter(|word| !page.contains(&format!("`{word}`"))).map(str::to_owned).collect();
    assert_none("docs/jobctl.md lists every word for a state", &missing);
}

/// Where a program writes a state of an execution for people, it does not spell the API's own word.
#[test]
fn no_program_shows_the_states_of_executions_as_the_api_spells_them() {
    let api_words = ["\"AskForBid", "\"BidAccepted", "\"BidRejected"];
    let shown = files(&root(), "rs").into_iter().filter(|source| {
        ["crates/jobctl/src/", "crates/demo/src/"].iter().any(|at| source.path.contains(at))
    });
    let broken: Vec<_> = shown
        .filter(|source| api_words.iter().any(|word| source.text.contains(word)))
        .map(|source| source.path.clone())
        .collect();
    assert_none("jobctl and the demo show the words of api_types::words", &broken);
}
