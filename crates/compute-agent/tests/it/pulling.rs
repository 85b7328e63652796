//! Image pulls: when a registry is contacted, with which credentials, and what is reported.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use api_types::engine::{EngineType, PullPolicy};
use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{FailureCause, Report, Work};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bollard::Docker;
use bollard::query_parameters::RemoveImageOptions;
use compute_agent::Settings;
use compute_agent::settings::{RegistryCredentials, Secret};
use serde_json::{Value, json};

use crate::daemon::daemon;
use crate::image;
use crate::node::{Node, work};
use crate::orchestrator::Orchestrator;
use crate::registry::Registry;

/// A password whose base64 differs between the two alphabets.
const PASSWORD: &str = "a?>~b?>~c";

/// A node and a registry, and the images that are to be removed in the end.
pub(crate) struct Setup {
    pub(crate) node: Node,
    pub(crate) registry: Registry,
    pub(crate) docker: Docker,
}

impl Setup {
    /// None where there is no Docker Engine.
    pub(crate) async fn start(change: impl FnOnce(&mut Settings, &Registry)) -> Option<Self> {
        let docker = image::docker().await?;
        let registry = Registry::start().await;
        let node = Node::start(|settings| {
            settings.engines = vec![EngineType::Docker];
            settings.docker.config_file = Path::new("").to_owned();
            // However full the disk of this machine is.
            settings.docker.images_max_percent = 100;
            change(settings, &registry);
        })
        .await;
        Some(Self { node, registry, docker })
    }

    pub(crate) async fn completes(&self, image: &str, policy: Option<&str>) {
        let id = self.node.orchestrator.run(task(image, policy)).await;
        self.node.orchestrator.reported(id, ComputeState::Completed).await;
    }

    pub(crate) async fn fails(&self, image: &str, policy: Option<&str>) -> Report {
        let id = self.node.orchestrator.run(task(image, policy)).await;
        let report = self.node.orchestrator.reported(id, ComputeState::Failed).await;
        assert_eq!(report.cause, FailureCause::Fetch, "{report:?}");
        report
    }

    pub(crate) async fn remove(&self, image: &str) {
        remove(&self.docker, image).await;
    }
}

/// Once no container has it any more.
pub(crate) async fn remove(docker: &Docker, image: &str) {
    crate::node::eventually(&format!("{image} to be removed"), async || {
        docker.remove_image(image, None::<RemoveImageOptions>, None).await.is_ok()
    })
    .await;
}

fn task(image: &str, policy: Option<&str>) -> Work {
    let mut params = json!({ "Image": image, "Parameters": ["out", "hello"] });
    if let Some(policy) = policy {
        params["PullPolicy"] = Value::from(policy);
    }
    work(EngineType::Docker, params)
}

pub(crate) fn password_of(
    registry: &Registry,
    password: &str,
) -> BTreeMap<String, RegistryCredentials> {
    let credentials = RegistryCredentials {
        username: "ada".to_owned(),
        password: Some(Secret::new(password)),
        ..RegistryCredentials::default()
    };
    BTreeMap::from([(format!("http://{}/v2/", registry.host()), credentials)])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_image_is_pulled_and_a_present_one_needs_no_registry() {
    let Some(setup) = Setup::start(|_, _| ()).await else { return };
    let image = setup.registry.push("missing/image:1", "missing").image;
    setup.completes(&image, None).await;
    let asked = setup.registry.count("");
    assert!(asked > 0);
    setup.completes(&image, None).await;
    setup.completes(&image, Some("missing")).await;
    setup.completes(&image, Some("never")).await;
    assert_eq!(setup.registry.count(""), asked, "the registry was asked without need");
    // Removed since it was seen.
    setup.remove(&image).await;
    let report = setup.fails(&image, Some("never")).await;
    assert!(report.message.contains("is not on this node"), "{}", report.message);
    setup.completes(&image, None).await;
    setup.remove(&image).await;
    setup.completes(&image, None).await;
    setup.remove(&image).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn always_pulls_each_time_and_runs_the_current_image() {
    let Some(mut setup) = Setup::start(|_, _| ()).await else { return };
    let image = setup.registry.push("always/image:1", "first").image;
    setup.completes(&image, Some("always")).await;
    let first = setup.docker.inspect_image(&image).await.unwrap().id;
    let asked = setup.registry.count("/manifests/");
    setup.completes(&image, Some("always")).await;
    assert!(setup.registry.count("/manifests/") > asked);
    assert_eq!(setup.docker.inspect_image(&image).await.unwrap().id, first);
    setup.registry.push("always/image:1", "second");
    setup.completes(&image, Some("always")).await;
    let second = setup.docker.inspect_image(&image).await.unwrap().id;
    assert_ne!(second, first);
    // A present image does not replace an unreachable registry.
    let gone = std::mem::replace(&mut setup.registry, Registry::start().await);
    drop(gone);
    let report = setup.fails(&image, Some("always")).await;
    for part in [image.as_str(), "does not respond as expected", "(tried 3 times)"] {
        assert!(report.message.contains(part), "{part}: {}", report.message);
    }
    setup.completes(&image, None).await;
    setup.remove(&image).await;
    setup.remove(&first.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn never_fails_without_a_request_and_names_image_and_policy() {
    let Some(setup) = Setup::start(|_, _| ()).await else { return };
    let image = setup.registry.push("never/image:1", "never").image;
    let report = setup.fails(&image, Some("never")).await;
    assert_eq!(
        report.message,
        format!(
            "image '{image}' is not on this node, and the pull policy 'never' forbids pulling it; \
             load the image on the node, or change the PullPolicy of the task"
        )
    );
    assert_eq!(setup.registry.count(""), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_cannot_override_the_policy_never_of_its_node() {
    let never = |settings: &mut Settings, _: &Registry| {
        settings.docker.pull_policy = PullPolicy::Never;
    };
    let Some(setup) = Setup::start(never).await else { return };
    let image = setup.registry.push("forbidden/image:1", "forbidden").image;
    for policy in [None, Some("missing")] {
        let report = setup.fails(&image, policy).await;
        assert!(report.message.contains("change docker.pull_policy of its agent"), "{report:?}");
    }
    let id = setup.node.orchestrator.offer(task(&image, Some("always")));
    let report = setup.node.orchestrator.reported(id, ComputeState::AskForBidRejected).await;
    assert_eq!(
        report.message,
        "PullPolicy 'always' is not possible on this node: its docker.pull_policy is 'never'"
    );
    assert_eq!(setup.registry.count(""), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_in_the_settings_open_a_registry_and_are_never_shown() {
    let Some(setup) = Setup::start(|settings, registry| {
        settings.docker.credentials = password_of(registry, PASSWORD);
    })
    .await
    else {
        return;
    };
    let image = setup.registry.push("private/image:1", "private").image;
    setup.registry.require("ada", PASSWORD);
    setup.completes(&image, None).await;
    setup.remove(&image).await;
    setup.registry.require("ada", "changed");
    let report = setup.fails(&image, None).await;
    for part in ["the registry denies it", "docker.credentials", &setup.registry.host()] {
        assert!(report.message.contains(part), "{part}: {}", report.message);
    }
    let told = format!("{report:?} {:?}", setup.node.settings);
    assert!(!told.contains(PASSWORD), "{told}");
    // A denial is permanent: there is no retry.
    assert!(!report.message.contains("tried"), "{}", report.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_in_dockers_configuration_are_read_at_every_pull() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.json");
    let config_file = file.clone();
    let Some(setup) = Setup::start(|settings, _| settings.docker.config_file = config_file).await
    else {
        return;
    };
    let image = setup.registry.push("login/image:1", "login").image;
    setup.registry.require("ada", PASSWORD);
    let report = setup.fails(&image, None).await;
    assert!(report.message.contains("the registry denies it"), "{}", report.message);
    std::fs::write(&file, "{ no json").unwrap();
    let report = setup.fails(&image, None).await;
    let trouble =
        format!("no credentials were sent: cannot read docker's configuration {}", file.display());
    assert!(report.message.contains(&trouble), "{}", report.message);
    let auth = BASE64_STANDARD.encode(format!("ada:{PASSWORD}"));
    let config = json!({ "auths": { setup.registry.host(): { "auth": auth } } });
    std::fs::write(&file, config.to_string()).unwrap();
    setup.completes(&image, None).await;
    setup.remove(&image).await;
}

/// As a process: programs are found in its `PATH`.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_helper_is_used_and_its_secret_is_never_logged() {
    let Some(docker) = image::docker().await else { return };
    let (registry, orchestrator) = (Registry::start().await, Orchestrator::start().await);
    let image = registry.push("helper/image:1", "helper").image;
    registry.require("ada", PASSWORD);
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("docker-credential-it");
    let script = format!(
        "#!/bin/sh\nread host\n[ \"$1 $host\" = 'get {}' ] || exit 1\n\
         echo '{{\"Username\":\"ada\",\"Secret\":\"{PASSWORD}\"}}'\n",
        registry.host()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = json!({ "credHelpers": { registry.host(): "it" } });
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let mut command = daemon(&dir.path().join("data"), &orchestrator.url());
    command
        .env("PATH", path)
        .env("DOCKER_CONFIG", dir.path())
        .env("RUST_LOG", "trace")
        .stderr(std::fs::File::create(dir.path().join("log")).unwrap());
    let child = command.spawn().unwrap();
    let id = orchestrator.run(task(&image, None)).await;
    orchestrator.reported(id, ComputeState::Completed).await;
    remove(&docker, &image).await;
    assert_eq!(crate::daemon::terminate(child).await.code(), Some(0));
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("pulling an image"), "{log}");
    let pair = BASE64_STANDARD.encode(format!("ada:{PASSWORD}"));
    for secret in [PASSWORD, pair.as_str()] {
        assert!(!log.contains(secret), "the log tells {secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_missing_in_its_registry_fails_immediately() {
    let Some(setup) = Setup::start(|_, _| ()).await else { return };
    let image = format!("{}/absent/image:1", setup.registry.host());
    let report = setup.fails(&image, None).await;
    let wanted = format!("image '{image}' cannot be pulled: the registry does not have it");
    assert!(report.message.starts_with(&wanted), "{}", report.message);
    assert!(!report.message.contains("tried"), "{}", report.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_during_a_pull_is_retried() {
    let Some(setup) = Setup::start(|_, _| ()).await else { return };
    let pushed = setup.registry.push("cut/image:1", "cut");
    setup.registry.cut_once(&pushed.layer);
    setup.completes(&pushed.image, None).await;
    assert!(setup.registry.count(&format!("GET /v2/cut/image/blobs/{}", pushed.layer)) > 1);
    setup.remove(&pushed.image).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_fails_midway_reports_why_and_leaves_nothing_partial() {
    let Some(setup) = Setup::start(|_, _| ()).await else { return };
    let pushed = setup.registry.push("spoilt/image:1", "spoilt");
    setup.registry.spoil(&pushed.layer);
    let report = setup.fails(&pushed.image, None).await;
    for part in ["cannot be pulled: docker refuses", "verification failed", &pushed.layer] {
        assert!(report.message.contains(part), "{part}: {}", report.message);
    }
    assert!(setup.docker.inspect_image(&pushed.image).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_share_a_pull_and_stopping_one_does_not_cancel_it() {
    let Some(setup) = Setup::start(|_, _| ()).await else { return };
    let pushed = setup.registry.push("shared/image:1", "shared");
    setup.registry.hold(&pushed.layer);
    let orchestrator = &setup.node.orchestrator;
    let first = orchestrator.run(task(&pushed.image, None)).await;
    let blob = format!("GET /v2/shared/image/blobs/{}", pushed.layer);
    crate::node::eventually("the layer to be on its way", async || {
        setup.registry.count(&blob) == 1
    })
    .await;
    let second = orchestrator.run(task(&pushed.image, Some("always"))).await;
    // Both executions report the one pull, in the same words.
    for id in [first, second] {
        let report = orchestrator.report_that(id, |report| !report.message.is_empty()).await;
        assert_eq!(report.compute_state, ComputeState::AskForBidAccepted, "{report:?}");
        let told = report.message.strip_prefix(&format!("pulling image '{}': ", pushed.image));
        let told = told.unwrap_or_else(|| panic!("{report:?}"));
        assert!(told.contains("B of ") && told.ends_with(" MB, 1 of 2 layers"), "{told}");
    }
    orchestrator.want_state(first, DesiredState::Stopped, "enough");
    orchestrator.reported(first, ComputeState::Cancelled).await;
    setup.registry.let_go();
    orchestrator.reported(second, ComputeState::Completed).await;
    assert_eq!(setup.registry.count(&blob), 1);
    setup.remove(&pushed.image).await;
}
