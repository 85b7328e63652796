//! Indexes that wait for the same ones of another job, and everything after a job, again.

use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::access::Guarded;
use crate::node::{FakeNode, executions};
use crate::reruns::{end, index_of, rerun_path};
use crate::server::{Server, answer, job_path, job_with, list, text};

const CREATE: &str = "/api/v1/orchestrator/jobs/graph";

/// So small that all of a graph fit.
fn small(fields: Value) -> Value {
    let mut job = job_with(fields);
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.01", "Memory": "1MB" });
    job
}

fn array(fields: Value) -> Value {
    let mut job = small(json!({ "Count": 3, "MaxFailed": -1 }));
    let fields = fields.as_object().expect("an object").clone();
    job.as_object_mut().expect("an object").extend(fields);
    job
}

fn same(job: &str) -> Value {
    json!([{ "Job": job, "Indexes": "Same" }])
}

async fn job(server: &Server, id: &str) -> Value {
    server.get(&job_path(id)).await.ok()["Job"].clone()
}

/// Ends the execution of this index.
async fn end_index(server: &Server, node: &FakeNode, job: &str, index: &str, failed: bool) {
    for _ in 0..100 {
        let placed = executions(server, job, 1).await;
        let is_meant = |execution: &&Value| index_of(execution) == index;
        if let Some(execution) = placed.iter().find(is_meant) {
            return end(server, node, execution, failed).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("[{index}] of {job} does not run");
}

/// Waits until the job has failed, because one that it depends on did; that takes a few turns.
async fn until_failed(server: &Server, id: &str) {
    for _ in 0..200 {
        if text(&job(server, id).await["State"]["StateType"]) == "Failed" {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{id} is {}", job(server, id).await["State"]);
}

#[tokio::test]
async fn indexes_follow_those_of_another_job_across_a_restart() {
    let mut server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let graph = json!({ "Jobs": {
        "split": array(json!({})), "map": array(json!({ "DependsOn": same("split") })),
        "check": array(json!({ "DependsOn": same("map") })),
    } });
    let created = server.post(CREATE, &graph).await;
    let ids = &created.ok()["Jobs"];
    let [split, map, check] = ["split", "map", "check"].map(|name| text(&ids[name]));
    end_index(&server, &node, &split, "1", false).await;
    end_index(&server, &node, &map, "1", false).await;
    let record = job(&server, &map).await;
    let depends_on =
        json!([{ "JobID": split, "Job": "split", "Condition": "Completed", "Indexes": "Same" }]);
    assert_eq!(record["DependsOn"], depends_on);
    let says = "each index waits for the same one of job 'split'";
    assert_eq!(
        (text(&record["State"]["StateType"]), text(&record["State"]["Message"])),
        ("Running".into(), says.into())
    );
    let explained = server.get(&format!("{}/explain", job_path(&map))).await;
    let gate = &explained.ok()["Gates"][0];
    assert_eq!((text(&gate["Type"]), &gate["Slots"]), ("DependsOn".into(), &json!(2)));
    server.restart().await;
    let node = FakeNode::rejoin(&server, node).await;
    end_index(&server, &node, &split, "2", true).await;
    end_index(&server, &node, &split, "0", false).await;
    server.restart().await;
    let node = FakeNode::rejoin(&server, node).await;
    for index in ["0", "1"] {
        if index == "0" {
            end_index(&server, &node, &map, index, false).await;
        }
        end_index(&server, &node, &check, index, false).await;
    }
    for (id, of) in [(&map, "split"), (&check, "map")] {
        until_failed(&server, id).await;
        let state = &job(&server, id).await["State"];
        assert_eq!(
            (text(&state["StateType"]), text(&state["FailedIndexes"])),
            ("Failed".into(), "2".into())
        );
        let says = format!("1 of 3 indexes failed; the first, not run: [2] of job '{of}' failed");
        assert_eq!(text(&state["Message"]), says);
    }
    let path = format!("/api/v1/orchestrator/graphs/{}", text(&created.ok()["GraphID"]));
    let graph = server.get(&path).await;
    assert_eq!(text(&graph.ok()["Graph"]["Edges"][0]["Indexes"]), "Same");

    // Only the indexes that did not run, and those of the first job that failed.
    let request = json!({ "Only": "Failed", "Downstream": true });
    let again = server.post(&rerun_path(&split), &request).await;
    let ids = &again.ok()["Jobs"];
    assert_eq!(ids.as_object().unwrap().len(), 3);
    for name in ["split", "map", "check"] {
        end_index(&server, &node, &text(&ids[name]), "2", false).await;
        let record = job(&server, &text(&ids[name])).await;
        assert_eq!(text(&record["State"]["Message"]), "its execution completed");
    }
}

#[tokio::test]
async fn indexes_wait_only_for_the_same_ones_of_a_batch_job() {
    let server = Server::start().await;
    let first = server.submit(array(json!({ "Name": "split" }))).await;
    let ops = server.submit(small(json!({ "Type": "ops", "Name": "setup" }))).await;
    let on = |id: &str| json!([{ "JobID": id, "Indexes": "Same" }]);
    let jobs = "/api/v1/orchestrator/jobs";
    let two = array(json!({ "Count": 2, "DependsOn": on(&first) }));
    let refused = server.put(jobs, &json!({ "Job": two })).await;
    let says =
        "DependsOn[0].Indexes: must be All: the job has the indexes 0-1, and 'split' has 0-2";
    assert_eq!(refused.problems(), [says]);
    let refused =
        server.put(jobs, &json!({ "Job": array(json!({ "DependsOn": on(&ops) })) })).await;
    let says =
        "DependsOn[0].Indexes: must be All: Same is for batch jobs, and the type of 'setup' is ops";
    assert_eq!(refused.problems(), [says]);
}

/// 1,000 jobs: `good` and ten after it complete; `bad` fails, and with it all others.
fn thousand() -> Value {
    let mut jobs = Map::new();
    let after = |name: String| small(json!({ "DependsOn": [{ "Job": name }] }));
    jobs.insert("good".to_owned(), small(json!({})));
    jobs.insert("bad".to_owned(), small(json!({})));
    for at in 0..10 {
        jobs.insert(format!("fine{at}"), after("good".to_owned()));
    }
    for at in 0..988 {
        let on = if at == 0 { "bad".to_owned() } else { format!("late{}", (at - 1) / 3) };
        let mut job = after(on);
        job["DependsOn"]
            .as_array_mut()
            .expect("a list")
            .push(json!({ "Job": format!("fine{}", at % 10) }));
        jobs.insert(format!("late{at}"), job);
    }
    json!({ "Name": "nightly", "Jobs": jobs })
}

#[tokio::test]
async fn everything_that_did_not_run_runs_again_and_nothing_else() {
    let mut server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let created = server.post(CREATE, &thousand()).await;
    let ids = created.ok()["Jobs"].clone();
    let bad = text(&ids["bad"]);
    end_index(&server, &node, &text(&ids["good"]), "0", false).await;
    end_index(&server, &node, &bad, "0", true).await;
    for at in 0..10 {
        end_index(&server, &node, &text(&ids[&format!("fine{at}")]), "0", false).await;
    }
    for name in ids.as_object().unwrap().keys().filter(|name| name.starts_with("late")) {
        until_failed(&server, &text(&ids[name])).await;
    }
    let path = format!("/api/v1/orchestrator/graphs/{}", text(&created.ok()["GraphID"]));
    let graph = server.get(&path).await;
    let state = |job: &&Value, state: &str| text(&job["State"]) == state;
    let jobs = list(&graph.ok()["Graph"]["Jobs"]);
    assert_eq!(jobs.iter().filter(|job| state(job, "Failed")).count(), 989);

    let request = json!({ "Downstream": true, "Patch": { "Priority": 7 } });
    let dry = server.post(&format!("{}?dry_run=true", rerun_path(&bad)), &request).await;
    let downstream = list(&dry.ok()["Downstream"]);
    assert_eq!((downstream.len(), &dry.ok()["Job"]["Priority"]), (988, &json!(7)));
    assert_eq!(text(&downstream[0]["Indexes"]), "0");
    let send = |server: &Server| {
        let request = server.request(Method::POST, &rerun_path(&bad)).json(&request);
        answer(request.header("Idempotency-Key", "once"))
    };
    let again = send(&server).await.ok().clone();
    server.restart().await;
    let node = FakeNode::rejoin(&server, node).await;
    assert_eq!(*send(&server).await.ok(), again);
    let new = again["Jobs"].as_object().unwrap();
    let mut names: Vec<_> = new.keys().cloned().collect();
    names.retain(|name| !name.starts_with("late"));
    assert_eq!((new.len(), names), (989, vec!["bad".to_owned()]));
    let first = job(&server, &text(&new["bad"])).await;
    assert_eq!(
        (&first["Priority"], text(&first["Meta"]["service.org/rerun-of"])),
        (&json!(7), bad)
    );
    assert_eq!(text(&first["Meta"]["service.org/graph"]), text(&again["GraphID"]));
    let late = text(&new["late0"]);
    let depends_on = job(&server, &late).await["DependsOn"].clone();
    assert_eq!(
        depends_on[0],
        json!({ "JobID": new["bad"], "Job": "bad", "Condition": "Completed" })
    );
    assert_eq!(depends_on[1]["JobID"], ids["fine0"], "it had completed");
    end_index(&server, &node, &text(&new["bad"]), "0", false).await;
    end_index(&server, &node, &late, "0", false).await;
    for at in 1..4 {
        executions(&server, &text(&new[&format!("late{at}")]), 1).await;
    }
}

#[tokio::test]
async fn who_asks_right_after_the_end_of_a_job_gets_all_that_depends_on_it() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let mut jobs = Map::from_iter([("first".to_owned(), small(json!({})))]);
    for at in 0..900 {
        let on = if at % 300 == 0 { "first".to_owned() } else { format!("after{}", at - 1) };
        jobs.insert(format!("after{at}"), small(json!({ "DependsOn": [{ "Job": on }] })));
    }
    let created = server.post(CREATE, &json!({ "Jobs": jobs })).await;
    let first = text(&created.ok()["Jobs"]["first"]);
    end_index(&server, &node, &first, "0", true).await;
    until_failed(&server, &first).await;
    let again = server.post(&rerun_path(&first), &json!({ "Downstream": true })).await;
    assert_eq!(again.ok()["Jobs"].as_object().unwrap().len(), 901);
}

#[tokio::test]
async fn a_job_that_goes_on_is_not_split_between_two_runs() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let graph = json!({ "Jobs": {
        "split": array(json!({})), "map": array(json!({ "DependsOn": same("split") })),
    } });
    let created = server.post(CREATE, &graph).await;
    let [split, map] = ["split", "map"].map(|name| text(&created.ok()["Jobs"][name]));
    for (index, failed) in [("0", false), ("1", true), ("2", false)] {
        end_index(&server, &node, &split, index, failed).await;
    }
    until_failed(&server, &split).await;
    let request = json!({ "Only": "Failed", "Downstream": true });
    let refused = server.post(&rerun_path(&split), &request).await;
    refused.refused(409, "JobNotFinished").says(&map);
    for index in ["0", "2"] {
        end_index(&server, &node, &map, index, false).await;
    }
    until_failed(&server, &map).await;
    let again = server.post(&rerun_path(&split), &request).await;
    assert_eq!(again.ok()["Jobs"].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn what_could_not_run_all_the_same_is_left_out_with_a_warning() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let graph = json!({ "Jobs": {
        "a": small(json!({})), "b": small(json!({})),
        "c": small(json!({ "DependsOn": [{ "Job": "a" }, { "Job": "b" }] })),
    } });
    let created = server.post(CREATE, &graph).await;
    let ids = &created.ok()["Jobs"];
    for name in ["a", "b"] {
        end_index(&server, &node, &text(&ids[name]), "0", true).await;
    }
    until_failed(&server, &text(&ids["c"])).await;
    let again = server.post(&rerun_path(&text(&ids["a"])), &json!({ "Downstream": true })).await;
    assert_eq!(again.ok()["Jobs"].as_object().unwrap().len(), 1);
    let says = "job 'c' is left out: it depends on job 'b' too, which is Failed";
    assert_eq!(again.ok()["Warnings"], json!([says]));
}

#[tokio::test]
async fn only_a_submitter_of_the_namespace_runs_jobs_again() {
    let guarded = Guarded::start().await;
    let graph = json!({ "Jobs": { "a": job_with(json!({ "Namespace": "home" })) } });
    let created = guarded.ask(Method::POST, CREATE, &guarded.admin, Some(&graph)).await;
    let id = text(&created.ok()["Jobs"]["a"]);
    guarded.ask(Method::DELETE, &job_path(&id), &guarded.admin, None).await.ok();
    let request = Some(json!({ "Downstream": true }));
    let path = rerun_path(&id);
    let outsider = guarded.token("owner", &["away"]).await;
    guarded.ask(Method::POST, &path, &outsider, request.as_ref()).await.refused(404, "JobNotFound");
    let viewer = guarded.token("viewer", &["home"]).await;
    guarded.ask(Method::POST, &path, &viewer, request.as_ref()).await.refused(403, "Forbidden");
    let submitter = guarded.token("submitter", &["home"]).await;
    let again = guarded.ask(Method::POST, &path, &submitter, request.as_ref()).await;
    assert!(again.ok()["GraphID"].is_string());
}

#[tokio::test]
async fn what_reads_the_results_of_a_job_reads_those_of_its_rerun() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let mut split = array(json!({}));
    split["Tasks"][0]["Publisher"] = json!({ "Type": "local" });
    let mut merge = small(json!({ "DependsOn": [{ "Job": "split" }] }));
    let source = json!({ "Type": "job", "Params": { "Job": "split" } });
    merge["Tasks"][0]["InputSources"] = json!([{ "Source": source, "Target": "/in" }]);
    let graph = json!({ "Jobs": { "split": split, "merge": merge } });
    let created = server.post(CREATE, &graph).await;
    let first = text(&created.ok()["Jobs"]["split"]);
    for (index, failed) in [("0", false), ("1", true), ("2", false)] {
        end_index(&server, &node, &first, index, failed).await;
    }
    until_failed(&server, &text(&created.ok()["Jobs"]["merge"])).await;
    // Those of the other indexes are results of the first job.
    let failed = json!({ "Only": "Failed", "Downstream": true });
    let refused = server.post(&rerun_path(&first), &failed).await;
    let says = "Downstream: job 'merge' reads results of indexes of job 'split' that would not \
                run again: rerun all of its indexes";
    assert_eq!(refused.problems(), [says]);

    let all = json!({ "Only": "All", "Downstream": true });
    let again = server.post(&rerun_path(&first), &all).await;
    let ids = &again.ok()["Jobs"];
    let merge = job(&server, &text(&ids["merge"])).await;
    let params = &merge["Tasks"][0]["InputSources"][0]["Source"]["Params"];
    assert_eq!((&params["JobID"], &params["Job"]), (&ids["split"], &json!("split")));
    assert_eq!(merge["DependsOn"][0]["JobID"], ids["split"]);
}

#[tokio::test]
async fn all_jobs_that_depend_on_what_would_run_again_are_counted() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let first = server.submit(small(json!({}))).await;
    end_index(&server, &node, &first, "0", true).await;
    let after = |id: &str, condition: &str| {
        let constraint = json!({ "Key": "nowhere", "Operator": "exists" });
        let depends_on = json!([{ "JobID": id, "Condition": condition }]);
        small(json!({ "DependsOn": depends_on, "Constraints": [constraint] }))
    };
    let second = server.submit(after(&first, "Completed")).await;
    until_failed(&server, &second).await;
    // None of them alone has more than 10,000. These have not ended, so they do not run again.
    for (job, graphs) in [(&first, 6), (&second, 5)] {
        let jobs: Map<_, _> =
            (0..1000).map(|at| (format!("j{at}"), after(job, "Failed"))).collect();
        for _ in 0..graphs {
            server.post(CREATE, &json!({ "Jobs": jobs })).await.ok();
        }
    }
    let refused = server.post(&rerun_path(&first), &json!({ "Downstream": true })).await;
    let says = "Downstream: more than 10000 jobs depend on the job and on those that did not run \
                because of it";
    assert_eq!(refused.problems(), [says]);
}
