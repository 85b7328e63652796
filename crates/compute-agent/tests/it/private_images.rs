//! Images that a namespace's credentials open: for whom else they run.

use api_types::ExecutionId;
use api_types::credential::{CredentialType, CredentialValue, Login};
use api_types::engine::EngineType;
use api_types::execution::ComputeState;
use api_types::protocol::{FailureCause, Work};
use serde_json::{Value, json};

use crate::node::work;
use crate::pulling::Setup;

const PASSWORD: &str = "a?>~b?>~c";

/// A task of a namespace, with or without its credentials.
fn task(image: &str, namespace: &str, is_named: bool) -> Work {
    let mut params = json!({ "Image": image, "Parameters": ["out", "hello"] });
    if is_named {
        params["Credentials"] = Value::from("hub");
    }
    Work { namespace: namespace.to_owned(), ..work(EngineType::Docker, params) }
}

impl Setup {
    fn grant(&self, password: &str, version: u64) {
        self.node.orchestrator.grant(vec![CredentialValue {
            name: "hub".to_owned(),
            credential_type: CredentialType::Registry,
            hosts: vec![self.registry.host()],
            buckets: Vec::new(),
            version,
            login: Login {
                username: "ada".to_owned(),
                password: password.to_owned(),
                ..Login::default()
            },
        }]);
    }

    async fn ended(&self, work: Work, state: ComputeState) -> (ExecutionId, String) {
        let id = self.node.orchestrator.run(work).await;
        let report = self.node.orchestrator.reported(id, state).await;
        if state == ComputeState::Failed {
            assert_eq!(report.cause, FailureCause::Fetch, "{report:?}");
        }
        (id, report.message)
    }

    async fn runs(&self, work: Work) {
        self.ended(work, ComputeState::Completed).await;
    }

    async fn is_refused(&self, work: Work) -> String {
        self.ended(work, ComputeState::Failed).await.1
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_one_namespace_opened_runs_for_another_with_its_own_credentials_alone() {
    let Some(mut setup) = Setup::start(|_, _| ()).await else { return };
    let image = setup.registry.push("opened/image:1", "opened").image;
    setup.registry.require("ada", PASSWORD);
    setup.grant(PASSWORD, 1);
    setup.runs(task(&image, "one", true)).await;
    let asked = setup.registry.count("");
    setup.runs(task(&image, "one", true)).await;
    assert_eq!(setup.registry.count(""), asked, "the registry was asked without need");

    // No one else gets it, under whatever name it has.
    let id = setup.docker.inspect_image(&image).await.unwrap().id.unwrap();
    for name in [image.as_str(), &id, &id["sha256:".len()..][..12]] {
        for namespace in ["one", "two"] {
            setup.is_refused(task(name, namespace, false)).await;
        }
    }
    let mut never = task(&image, "two", false);
    never.task.engine.params.insert("PullPolicy".to_owned(), json!("never"));
    let told = setup.is_refused(never).await;
    assert!(told.contains("is on this node with other credentials"), "{told}");
    setup.grant("wrong", 1);
    let told = setup.is_refused(task(&image, "two", true)).await;
    assert!(told.contains("check its name, and the credentials 'hub'"), "{told}");
    assert!(!told.contains("wrong"), "{told}");

    // Nor after a restart of the agent; its registry gives it to those whom it knows.
    setup.node.shut_down_agent().await;
    setup.node.start_agent().await;
    setup.is_refused(task(&image, "two", false)).await;
    setup.grant(PASSWORD, 1);
    setup.runs(task(&image, "two", true)).await;
    let asked = setup.registry.count("");
    setup.runs(task(&image, "one", true)).await;
    assert_eq!(setup.registry.count(""), asked, "it was opened for this one before");

    // Another version of the credentials proves itself anew.
    setup.registry.require("ada", "changed");
    setup.grant(PASSWORD, 2);
    setup.is_refused(task(&image, "one", true)).await;
    setup.grant("changed", 3);
    setup.runs(task(&image, "one", true)).await;
    crate::pulling::remove(&setup.docker, &image).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_the_node_is_everybodys() {
    let Some(setup) = Setup::start(|_, _| ()).await else { return };
    let image = setup.registry.push("everybodys/image:1", "everybodys").image;
    setup.runs(task(&image, "one", false)).await;
    setup.grant(PASSWORD, 1);
    setup.runs(task(&image, "two", true)).await;
    setup.runs(task(&image, "three", false)).await;
    crate::pulling::remove(&setup.docker, &image).await;
}
