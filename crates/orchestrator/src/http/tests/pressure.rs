//! With a hanging store, waiting requests are bounded and reads continue.

use std::pin::Pin;

use api_types::NodeId;
use api_types::access::Role;
use api_types::protocol::Heartbeat;
use api_types::quantity::Capacity;
use control_plane::store::Namespaces;
use futures_util::FutureExt;
use reqwest::Method;
use scheduler::input::{Input, Refusal};
use serde_json::Value;
use uuid::Uuid;

use super::service::Service;
use crate::access::{Caller, Who};
use crate::driver::{CallError, RESERVED_FOR_NODES, WAITING_INPUTS};
use crate::shares::Owner;

type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + 'a>>;

/// Sends requests until one is refused; returns those that wait.
fn fill<'a, T: std::fmt::Debug>(call: impl Fn() -> Call<'a, T>) -> Vec<Call<'a, T>> {
    let mut waiting = Vec::new();
    loop {
        let mut next = call();
        match (&mut next).now_or_never() {
            None => waiting.push(next),
            Some(Err(CallError::QueueFull)) => return waiting,
            Some(other) => panic!("{other:?} while the driver is held up"),
        }
    }
}

async fn refused(request: reqwest::RequestBuilder) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let retry_after = response.headers().get("retry-after").cloned();
    let text = response.text().await.unwrap();
    assert_eq!(status, 429, "{text}");
    assert_eq!(retry_after.unwrap(), "1", "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_disk_hangs_waiting_inputs_are_bounded_and_reads_continue() {
    let service = Service::start().await;
    let first: Value = service.submit().send().await.unwrap().json().await.unwrap();
    let job = format!("/jobs/{}", first["JobID"].as_str().unwrap());
    service.gate.set(true);
    let held = tokio::spawn(service.submit().send());
    service.gate.holds_a_commit().await;
    // The driver has taken what it commits; from here on all wait in the queue.
    let handle = &service.api.handle;
    let users = fill(|| Box::pin(async move { handle.ask(|_| ()).await }));
    assert_eq!(users.len(), WAITING_INPUTS - RESERVED_FOR_NODES);
    refused(service.submit()).await;
    refused(service.request(Method::DELETE, &job)).await;

    // Messages of nodes are still accepted, up to a bound of their own.
    let node = NodeId::from_uuid(Uuid::from_u128(2));
    let heartbeat = Heartbeat {
        session: 1,
        used_capacity: Capacity::default(),
        running_executions: 0,
        enqueued_executions: 0,
        stalled_millis: 0,
        lease_seconds: 0,
        probed: None,
    };
    let nodes = fill(|| {
        let heartbeat = heartbeat.clone();
        Box::pin(handle.call(Input::Heartbeat { node, heartbeat }))
    });
    assert_eq!(nodes.len(), RESERVED_FOR_NODES);
    let path = format!("/nodes/{node}/heartbeat");
    refused(service.request(Method::PUT, &path).json(&heartbeat)).await;

    for path in ["/jobs", &job, &format!("{job}/history"), "/nodes", &format!("{job}?wait=10ms")] {
        assert_eq!(
            service.request(Method::GET, path).send().await.unwrap().status(),
            200,
            "{path}"
        );
    }
    let mut events = service.request(Method::GET, "/events?since=0").send().await.unwrap();
    let mut text = String::new();
    while !text.contains("data: ") {
        text += &String::from_utf8_lossy(&events.chunk().await.unwrap().unwrap());
    }

    service.gate.set(false);
    assert_eq!(held.await.unwrap().unwrap().status(), 200);
    for call in users {
        call.await.unwrap();
    }
    for call in nodes {
        assert_eq!(call.await, Err(Refusal::NoSuchNode(node).into()));
    }
    assert_eq!(service.submit().send().await.unwrap().status(), 200);
}

/// A caller with a token for one namespace.
fn submitter(namespace: &str, token: usize) -> Owner {
    let who = Who::Token { id: token.to_string(), name: "it".to_owned(), session: None };
    let namespaces = Namespaces::Only([namespace.to_owned()].into());
    Owner::for_caller(&Caller { who, role: Role::Submitter, namespaces })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_namespace_takes_half_of_the_queue_at_most_and_others_are_served() {
    let service = Service::start().await;
    service.gate.set(true);
    let held = tokio::spawn(service.submit().send());
    service.gate.holds_a_commit().await;
    let handle = &service.api.handle;
    let fill_as = |owners: Vec<Owner>| {
        let mut waiting = Vec::new();
        for owner in owners.iter().cycle() {
            let mut next = Box::pin(owner.clone().within(handle.ask(|_| ())));
            match (&mut next).now_or_never() {
                None => waiting.push(next),
                Some(Err(CallError::QueueShare { .. })) => break,
                Some(other) => panic!("{other:?} while the driver is held up"),
            }
        }
        waiting
    };
    // An eighth is reserved for operators and admins.
    let of_users = (WAITING_INPUTS - RESERVED_FOR_NODES) * 7 / 8;
    let near = |count: usize, part: usize| count.abs_diff(of_users / part) <= 2;
    let flood = fill_as((0..1000).map(|token| submitter("bad", token)).collect());
    assert!(near(flood.len(), 2), "{} of {of_users}", flood.len());
    let good = fill_as(vec![submitter("good", 0)]);
    assert!(near(good.len(), 6), "a third of what is left: {} of {of_users}", good.len());
    assert!(handle.places().used() == flood.len() + good.len());
    service.gate.set(false);
    assert_eq!(held.await.unwrap().unwrap().status(), 200);
    for call in flood.into_iter().chain(good) {
        call.await.unwrap();
    }
    assert_eq!(handle.places().used(), 0, "what was taken from the queue has no place there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_are_bounded_together_until_they_are_answered() {
    let service = Service::start().await;
    let pieces = service.api.pools.large_bodies.pieces();
    service.gate.set(true);
    let large = || {
        let meta = serde_json::json!({ "padding": "x".repeat(100_000) });
        let engine = serde_json::json!({ "Type": "docker", "Params": { "Image": "image:1" } });
        let task = serde_json::json!({ "Name": "main", "Engine": engine });
        let job = serde_json::json!({ "Type": "batch", "Meta": meta, "Tasks": [task] });
        service.request(Method::PUT, "/jobs").json(&serde_json::json!({ "Job": job }))
    };
    let held = tokio::spawn(large().send());
    service.gate.holds_a_commit().await;
    assert_eq!(pieces.used(), 2, "as long as it is not answered");
    let others = pieces.take(&Owner::everyone(), pieces.total() - pieces.used()).ok().unwrap();
    refused(large()).await;
    let small = tokio::spawn(service.submit().send());
    drop(others);
    let again = tokio::spawn(large().send());
    service.gate.set(false);
    for request in [held, small, again] {
        assert_eq!(request.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(pieces.used(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_aliases_made_of_a_small_body_takes_memory_like_a_large_one() {
    let service = Service::start().await;
    let pieces = service.api.pools.large_bodies.pieces();
    let yaml = |aliases: usize| {
        let copies: String = (0..aliases).map(|n| format!("    k{n}: *a\n")).collect();
        let task = "{Name: main, Engine: {Type: docker, Params: {Image: 'image:1'}}}";
        format!(
            "Job:\n  Type: batch\n  Tasks: [{task}]\n  Meta:\n    k: &a {}\n{copies}",
            "x".repeat(4096)
        )
    };
    let submit = |aliases| {
        let request = service.request(Method::PUT, "/jobs");
        request.header("Content-Type", "application/yaml").body(yaml(aliases))
    };
    assert!(yaml(60).len() < 16 * 1024, "small enough to need no permit itself");
    service.gate.set(true);
    let held = tokio::spawn(submit(60).send());
    service.gate.holds_a_commit().await;
    assert_eq!(pieces.used(), 4, "250 KB as long as it is not answered");
    let others = pieces.take(&Owner::everyone(), pieces.total() - pieces.used()).ok().unwrap();
    refused(submit(60)).await;
    let small = tokio::spawn(submit(1).send());
    drop(others);
    service.gate.set(false);
    for request in [held, small] {
        assert_eq!(request.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(pieces.used(), 0);
}
