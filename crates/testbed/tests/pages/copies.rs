//! What pages show and do is copied as lines of curl and of jobctl, which do the same in a shell.

use api_types::job::JobStateType;
use api_types::node::{Eligibility, Membership};
use api_types::{JobId, NodeId};
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

use super::browser::{Browser, in_browser, in_window};
use super::named;
use super::terminal::{PROGRAMS, Terminal, copied, permit_clipboard};

const PRINTED: &str = "Hello from WebAssembly!";

/// The first ID of a job in a text.
fn job_in(text: &str) -> JobId {
    let at = text.find("j-").unwrap_or_else(|| panic!("no job in {text}"));
    text[at..at + 38].parse().unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// A job that waits for a node that never comes.
async fn waits(cluster: &Cluster, name: &str) -> JobId {
    let mut job = named(name);
    job["Constraints"] = json!([{ "Key": "zone", "Operator": "=", "Values": ["mars"] }]);
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Queued).await;
    id
}

async fn choose(browser: &Browser, label: &str, value: &str) {
    let script = format!(
        "(() => {{ const field = document.querySelector('main [aria-label=\"{label}\"]'); \
         field.value = {}; field.dispatchEvent(new Event('change')); return true; }})()",
        json!(value)
    );
    assert_eq!(browser.value(&script).await, json!(true), "{label}");
}

/// The job of the page, run by both lines; the last of them.
async fn submitted(browser: &Browser, cluster: &Cluster, what: &str) -> JobId {
    let terminal = Terminal::new();
    let mut jobs = Vec::new();
    for program in PROGRAMS {
        let id = job_in(&terminal.run(&copied(browser, program, what).await).await);
        cluster.wait_for_job(id, JobStateType::Completed).await;
        jobs.push(id);
    }
    assert_ne!(jobs[0], jobs[1]);
    jobs[1]
}

#[tokio::test]
async fn copied_lines_submit_a_job_and_read_all_about_it() {
    let agent = AgentSpec::new().engines("wasm");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let terminal = Terminal::new();
    in_browser(&cluster, async |browser| {
        permit_clipboard(browser).await;
        browser.visit("/submit").await;
        browser.wait_for_text("Would start now on 1 node").await;
        let first = submitted(browser, &cluster, "submitting it").await;
        let mut job = serde_json::to_value(cluster.client().describe_job(first).await.unwrap());
        let job = job.as_mut().expect("a job is JSON");
        let mut published = named("published");
        published["Tasks"] = job["Tasks"].take();
        published["Tasks"][0]["Publisher"] = json!({ "Type": "local" });
        let execution = cluster.run_one(&published).await;
        let id = execution.job_id;
        let in_text = |printed: &str| assert!(printed.contains("[0]"), "{printed}");

        browser.visit(&format!("/jobs/{id}")).await;
        browser.wait_for_text("Failed only").await;
        for column in ["State", "Changed"] {
            browser.click(column).await;
            let read = terminal.json(&copied(browser, "curl", "the executions").await).await;
            assert_eq!(read["Executions"][0]["ID"], json!(execution.id));
            in_text(&terminal.run(&copied(browser, "jobctl", "the executions").await).await);
        }
        let timeline = "the history of its executions";
        for (tab, what) in [("timeline", timeline), ("history", "the history")] {
            browser.visit(&format!("/jobs/{id}/{tab}")).await;
            browser.wait_for_text(if tab == "timeline" { "As a table" } else { "Became" }).await;
            let read = terminal.json(&copied(browser, "curl", what).await).await;
            let last = read["History"].as_array().and_then(|events| events.last()).cloned();
            assert_eq!(last.expect("an event")["JobID"], json!(id));
            in_text(&terminal.run(&copied(browser, "jobctl", what).await).await);
        }

        browser.visit(&format!("/jobs/{id}/logs")).await;
        browser.wait_for_text(PRINTED).await;
        for program in PROGRAMS {
            let line = copied(browser, program, "the logs").await;
            assert_eq!(terminal.run(&line).await, format!("{PRINTED}\n"), "{line}");
        }
        choose(browser, "Stream", "stderr").await;
        for program in PROGRAMS {
            let line = copied(browser, program, "the logs").await;
            assert_eq!(terminal.run(&line).await, "", "{line}");
        }

        browser.visit(&format!("/jobs/{id}/results")).await;
        browser.wait_for_text("Download").await;
        let archive = terminal.home().join(format!("{}.tar.gz", execution.id.short()));
        for what in ["all results".to_owned(), format!("the result of {}", execution.id)] {
            terminal.run(&copied(browser, "curl", &what).await).await;
            let bytes = std::fs::read(&archive).expect("curl has left the archive");
            assert_eq!(bytes[..2], [0x1f, 0x8b], "it is no archive");
            std::fs::remove_file(&archive).expect("remove it");
            terminal.run(&copied(browser, "jobctl", &what).await).await;
            let unpacked = terminal.home().join(id.short());
            assert!(unpacked.is_dir(), "jobctl has unpacked nothing");
            std::fs::remove_dir_all(unpacked).expect("remove it");
        }

        browser.visit(&format!("/jobs/{id}/specification")).await;
        browser.wait_for_text("Edit and submit as new").await;
        let again = submitted(browser, &cluster, "submitting it again").await;
        let again = cluster.client().describe_job(again).await.expect("the job");
        assert_eq!(again.spec.name, "published");
        browser.assert_no_fault("copies of a job").await;
    })
    .await;
}

/// What a list shows is what its lines print.
async fn lists(browser: &Browser, terminal: &Terminal, path: &str, expected: &[&str]) {
    browser.visit(path).await;
    let shown = "[...document.querySelectorAll('main tbody a.main')].map((a) => a.textContent)";
    let is = format!("JSON.stringify({shown}) === {}", json!(json!(expected).to_string()));
    browser.wait_for(path, &is).await;
    let read = terminal.json(&copied(browser, "curl", "this list").await).await;
    let names: Vec<_> =
        read["Jobs"].as_array().expect("a list").iter().map(|job| &job["Name"]).collect();
    assert_eq!(json!(names), json!(expected), "{path}");
    let line = copied(browser, "jobctl", "this list").await;
    let jobs = terminal.json(&format!("{line} -o json")).await;
    let names: Vec<_> = jobs.as_array().expect("a list").iter().map(|job| &job["Name"]).collect();
    assert_eq!(json!(names), json!(expected), "{line}");
}

#[tokio::test]
async fn copied_lines_list_jobs_with_all_filters() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let terminal = Terminal::new();
    for name in ["alpha", "alps"] {
        let mut job = named(name);
        job["Labels"] = json!({ "team": name });
        cluster.run(&job).await;
    }
    let mut elsewhere = named("beta");
    elsewhere["Namespace"] = json!("lab");
    cluster.run(&elsewhere).await;
    let stuck = waits(&cluster, "al is stuck").await;
    let since = cluster.client().describe_job(stuck).await.expect("the job").create_time.rfc3339();
    in_browser(&cluster, async |browser| {
        permit_clipboard(browser).await;
        for (query, expected) in [
            ("", &["al is stuck", "beta", "alps", "alpha"][..]),
            ("?order=oldest&namespace=default", &["alpha", "alps", "al is stuck"]),
            ("?name_prefix=al&state=Completed", &["alps", "alpha"]),
            ("?state=Pending%2CQueued&type=batch&since=1h", &["al is stuck"]),
            ("?labels=team+in+(alpha%2Cbeta)&order=changed", &["alpha"]),
            (&format!("?before={since}"), &["beta", "alps", "alpha"]),
        ] {
            lists(browser, &terminal, &format!("/jobs{query}"), expected).await;
        }
        browser.assert_no_fault("copies of lists").await;
    })
    .await;
}

/// Opens a dialog, copies what it would do, and leaves it.
async fn declined(browser: &Browser, open: &str, program: &str, what: &str) -> String {
    browser.click(open).await;
    browser.wait_for("it asks", "document.querySelector('dialog[open]') !== null").await;
    if browser.value("document.querySelector('dialog input') !== null").await == json!(true) {
        browser.press("it's over").await;
    }
    let line = copied(browser, program, what).await;
    browser.click("Cancel").await;
    browser.wait_for("it is closed", "document.querySelector('dialog') === null").await;
    line
}

#[tokio::test]
async fn copied_lines_stop_jobs_and_say_why_they_wait() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let terminal = Terminal::new();
    in_browser(&cluster, async |browser| {
        permit_clipboard(browser).await;
        for program in PROGRAMS {
            let id = waits(&cluster, "one").await;
            browser.visit(&format!("/jobs/{id}")).await;
            browser.wait_for_text("No node matches").await;
            let line = copied(browser, program, "why this job waits").await;
            assert!(terminal.run(&line).await.contains("zone"), "{line}");
            let line = declined(browser, "Stop…", program, "Stop the job").await;
            assert_eq!(cluster.wait_for_job(id, JobStateType::Queued).await.id, id);
            terminal.run(&line).await;
            let job = cluster.wait_for_job(id, JobStateType::Stopped).await;
            assert!(job.state.message.contains("it's over"), "{}", job.state.message);

            let several = [waits(&cluster, "several").await, waits(&cluster, "several").await];
            browser.visit("/jobs?name_prefix=several&state=Pending,Queued").await;
            let rows = "document.querySelectorAll('main tbody tr').length === 2";
            browser.wait_for("both are listed", rows).await;
            let all = "document.querySelector('[aria-label=\"Select all rows\"]').click() ?? true";
            assert_eq!(browser.value(all).await, json!(true));
            let line = declined(browser, "Stop…", program, "Stop 2 jobs").await;
            terminal.run(&line).await;
            for id in several {
                cluster.wait_for_job(id, JobStateType::Stopped).await;
            }
        }
        browser.assert_no_fault("copies of stops").await;
    })
    .await;
}

#[tokio::test]
async fn copied_lines_read_figures_nodes_and_events() {
    let agent =
        AgentSpec::new().engines("noop").label("zone", "a").setting("COMPUTE_AGENT_NAME", "worker");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let id = cluster.agents[0].node_id();
    let terminal = Terminal::new();
    in_browser(&cluster, async |browser| {
        permit_clipboard(browser).await;
        browser.visit("/").await;
        browser.wait_for_text("Capacity in use").await;
        let figures = terminal.json(&copied(browser, "curl", "the figures").await).await;
        assert_eq!(figures["Nodes"]["Connected"], json!(1), "{figures}");
        let printed = terminal.run(&copied(browser, "jobctl", "the figures").await).await;
        assert!(printed.contains("1 connected"), "{printed}");

        browser.visit("/nodes?labels=zone+in+(a,b)&order=available_cpu").await;
        browser.wait_for_text("worker").await;
        let read = terminal.json(&copied(browser, "curl", "this list").await).await;
        assert_eq!(read["Nodes"].as_array().map(Vec::len), Some(1), "{read}");
        let line = copied(browser, "jobctl", "this list").await;
        assert_eq!(terminal.run(&format!("{line} -o name")).await, format!("{id}\n"));

        browser.visit("/events?kind=node").await;
        for program in PROGRAMS {
            let line = copied(browser, program, "these events").await;
            terminal.prints(&line, "joined for the first time").await;
        }

        browser.visit(&format!("/nodes/{id}")).await;
        browser.wait_for_text("Live executions").await;
        let whole = id.to_string();
        let joined = "joined for the first time";
        for (what, text) in
            [("the node", whole.as_str()), ("the live executions", ""), ("the history", joined)]
        {
            for program in PROGRAMS {
                let line = copied(browser, program, what).await;
                let printed = terminal.run(&line).await;
                assert!(printed.contains(text), "{line}: {printed}");
            }
        }
        browser.assert_no_fault("copies of reads").await;
    })
    .await;
}

async fn is_forgotten(cluster: &Cluster, id: NodeId) {
    eventually("the node is forgotten", async || match cluster.client().describe_node(id).await {
        Err(_) => Ok(()),
        Ok(node) => Err(format!("{node:?}")),
    })
    .await;
}

#[tokio::test]
async fn copied_lines_manage_nodes() {
    let agent = AgentSpec::new().engines("noop");
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", "3").agent(agent);
    let mut cluster = spec.start_without_docker().await;
    let id = cluster.agents[0].node_id();
    let base_url = cluster.orchestrator.base_url().to_owned();
    let terminal = Terminal::new();
    let cluster = &mut cluster;
    in_window(&base_url, 1280, 900, async |browser| {
        permit_clipboard(browser).await;
        browser.visit(&format!("/nodes/{id}")).await;
        for (program, word, shown) in [
            ("curl", "Cordon", "Cordoned"),
            ("jobctl", "Uncordon", "Connected"),
            ("jobctl", "Cordon", "Cordoned"),
            ("curl", "Drain", "Drain"),
            ("curl", "Uncordon", "Connected"),
            ("jobctl", "Drain", "Drain"),
            ("curl", "Reject", "Rejected"),
            ("jobctl", "Approve", "Drain"),
            ("jobctl", "Reject", "Rejected"),
            ("curl", "Approve", "Drain"),
        ] {
            let what = format!("{word} the node");
            let line = declined(browser, &format!("{word}…"), program, &what).await;
            terminal.run(&line).await;
            let state = "document.querySelector('.title .state')?.innerText ?? ''";
            browser.wait_for(&line, &format!("({state}).startsWith('{shown}')")).await;
        }
        let node = cluster.client().describe_node(id).await.expect("the node");
        assert_eq!(
            (node.eligibility, node.membership),
            (Eligibility::Draining, Membership::Approved)
        );
        browser.wait_for_text("it's over").await;

        for program in PROGRAMS {
            cluster.agents[0].kill();
            browser.wait_for_text("Silent since").await;
            let line = declined(browser, "Forget…", program, "Forget the node").await;
            terminal.run(&line).await;
            is_forgotten(cluster, id).await;
            cluster.agents[0].restart().await;
            eventually("the node is back", async || {
                cluster.client().describe_node(id).await.map_err(|error| error.to_string())
            })
            .await;
            browser.visit(&format!("/nodes/{id}")).await;
        }
        browser.assert_no_fault("copies of nodes").await;
    })
    .await;
}

/// Forgetting a node whose executions are not given up yet takes them from it immediately.
#[tokio::test]
async fn copied_lines_forget_a_silent_node_that_ran_something() {
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", "3").agent(AgentSpec::new());
    let Some(mut cluster) = spec.start().await else { return };
    let id = cluster.agents[0].node_id();
    let base_url = cluster.orchestrator.base_url().to_owned();
    let terminal = Terminal::new();
    let cluster = &mut cluster;
    in_window(&base_url, 1280, 900, async |browser| {
        permit_clipboard(browser).await;
        let mut job = batch(&cluster.image, &["sleep", "600"]);
        job["Tasks"][0]["Timeouts"] = json!({ "LostAfter": 600 });
        let job = cluster.submit(&job).await;
        cluster.wait_for_job(job, JobStateType::Running).await;
        cluster.agents[0].kill();
        browser.visit(&format!("/nodes/{id}")).await;
        browser.wait_for_text("Silent since").await;
        for (program, now) in [("curl", "?now=true"), ("jobctl", "--now")] {
            let line = declined(browser, "Forget…", program, "Forget the node").await;
            assert!(line.contains(now), "{line}");
            if program == "jobctl" {
                terminal.run(&line).await;
            }
        }
        is_forgotten(cluster, id).await;
        cluster.wait_for_job(job, JobStateType::Queued).await;
    })
    .await;
}
