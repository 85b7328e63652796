//! Image collection: which images go, which stay, and the effect of an untimely removal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api_types::engine::EngineType;
use api_types::execution::{ComputeState, DesiredState};
use bollard::Docker;
use bollard::query_parameters::{CreateImageOptions, RemoveImageOptions, TagImageOptions};
use compute_agent::Settings;
use futures_util::TryStreamExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};

use crate::node::{eventually, work};
use crate::pulling::{Setup, remove};

impl Setup {
    async fn has(&self, image: &str) -> bool {
        self.docker.inspect_image(image).await.is_ok()
    }

    async fn is_removed(&self, image: &str) {
        eventually(&format!("{image} to be removed"), async || !self.has(image).await).await;
    }
}

/// Each image of these tests takes more than 5 MB, so that the limit fits only one.
const ROOM_FOR_ONE: u64 = 8_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn the_least_recently_used_image_is_removed_and_images_of_others_stay() {
    let room = |settings: &mut Settings, _: &_| settings.docker.images_max_bytes = ROOM_FOR_ONE;
    let Some(mut setup) = Setup::start(room).await else { return };
    let [first, second, third] = ["first", "second", "third"]
        .map(|name| setup.registry.push(&format!("{name}/image:1"), name).image);
    setup.completes(&first, None).await;
    setup.node.leaves_no_container(&setup.docker).await;
    setup.completes(&second, None).await;
    setup.is_removed(&first).await;
    assert!(setup.has(&second).await, "the one used last went too");
    // Someone else gives it another name, and the agent crashes in the meantime.
    let kept = format!("kept-{}", crate::orchestrator::new_id());
    let options = TagImageOptions { repo: Some(kept.clone()), tag: Some("1".to_owned()) };
    setup.docker.tag_image(&second, Some(options)).await.unwrap();
    setup.node.leaves_no_container(&setup.docker).await;
    setup.node.kill_agent().await;
    setup.node.start_agent().await;
    // That there are two is only known from before.
    setup.completes(&third, None).await;
    setup.is_removed(&third).await;
    assert!(setup.has(&second).await && setup.has(&kept_name(&kept)).await);
    remove(&setup.docker, &second).await;
    remove(&setup.docker, &kept_name(&kept)).await;
}

fn kept_name(repository: &str) -> String {
    format!("{repository}:1")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_removes_every_unused_image_except_those_of_others() {
    // Every disk is fuller than that.
    let full = |settings: &mut Settings, _: &_| settings.docker.images_max_percent = 1;
    let Some(setup) = Setup::start(full).await else { return };
    let [theirs, ours, running] = ["theirs", "ours", "running"]
        .map(|name| setup.registry.push(&format!("{name}/image:1"), name).image);
    let options = CreateImageOptions { from_image: Some(theirs.clone()), ..Default::default() };
    let pull = setup.docker.create_image(Some(options), None, None);
    pull.try_collect::<Vec<_>>().await.expect("another process pulls");
    // Pulled again by a task, it still belongs to someone else.
    setup.completes(&theirs, Some("always")).await;
    let params = json!({ "Image": running, "Parameters": ["sleep", "900000"] });
    let id = setup.node.orchestrator.run(work(EngineType::Docker, params)).await;
    setup.node.orchestrator.reported(id, ComputeState::BidAccepted).await;
    setup.completes(&ours, None).await;
    setup.is_removed(&ours).await;
    assert!(setup.has(&running).await, "an image was removed under its container");
    setup.node.orchestrator.want_state(id, DesiredState::Stopped, "enough");
    setup.is_removed(&running).await;
    assert!(setup.has(&theirs).await, "an image that the agent did not pull was removed");
    remove(&setup.docker, &theirs).await;
}

/// A proxy of the Engine that removes the image just before its first container is created.
async fn thief(docker: Docker, image: String) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let host = format!("tcp://{}", listener.local_addr().expect("an address"));
    let engine = Settings::default().docker.host;
    let engine = engine.strip_prefix("unix://").expect("a socket").to_owned();
    let stolen = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&stolen);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (docker, image, done) = (docker.clone(), image.clone(), Arc::clone(&done));
            let engine = UnixStream::connect(&engine).await.expect("the Engine answers");
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_engine, mut to_engine) = engine.into_split();
                let answers = tokio::io::copy(&mut from_engine, &mut to_client);
                let asks = async {
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                        let request = String::from_utf8_lossy(&buffer[..count]);
                        let makes = request.lines().next().unwrap_or_default();
                        if makes.starts_with("POST ")
                            && makes.contains("/containers/create")
                            && !done.swap(true, Ordering::SeqCst)
                        {
                            let options = None::<RemoveImageOptions>;
                            docker.remove_image(&image, options, None).await.expect("it is there");
                        }
                        if to_engine.write_all(&buffer[..count]).await.is_err() {
                            break;
                        }
                    }
                };
                tokio::select! { _ = answers => {}, () = asks => {} }
            });
        }
    });
    (host, stolen)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_was_removed_is_pulled_again() {
    let Some(mut setup) = Setup::start(|_, _| ()).await else { return };
    let image = setup.registry.push("stolen/image:1", "stolen").image;
    let (host, stolen) = thief(setup.docker.clone(), image.clone()).await;
    setup.node.kill_agent().await;
    setup.node.settings.docker.host = host;
    setup.node.start_agent().await;
    setup.completes(&image, None).await;
    assert!(stolen.load(Ordering::SeqCst), "nothing was taken away");
    remove(&setup.docker, &image).await;
}
