//! Registries that send their clients elsewhere: the Engine does not follow them to where the node
//! does not go.

use axum::Router;
use axum::routing::any;
use compute_agent::Settings;
use http::{StatusCode, header};
use peers::Serving;
use tokio::sync::mpsc;

use crate::pulling::{Setup, password_of};
use crate::registry::Registry;

/// A server that no pull may reach, and what it was asked.
struct Elsewhere {
    serving: Serving,
    asked: mpsc::UnboundedReceiver<()>,
}

impl Elsewhere {
    async fn start() -> Self {
        let (sender, asked) = mpsc::unbounded_channel();
        let answer = async move || {
            // The test may have ended.
            let _ = sender.send(());
            r#"{"token":"t"}"#
        };
        let serving = Serving::start(Router::new().fallback(any(answer))).await;
        Self { serving, asked }
    }

    fn host(&self) -> String {
        self.serving.address.to_string()
    }
}

/// A node that lists the registry, and with it its address, but allows no other private one.
fn lists(settings: &mut Settings, registry: &Registry) {
    settings.allow_private_addresses = false;
    settings.docker.registries = vec![registry.host()];
}

fn realm(url: &str) -> String {
    format!("Bearer realm=\"{url}/token\",service=\"registry\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_does_not_lead_the_engine_to_a_private_address_to_sign_in() {
    let mut elsewhere = Elsewhere::start().await;
    let Some(setup) = Setup::start(lists).await else { return };
    let image = setup.registry.push("led/away:1", "led").image;
    let challenge = realm(&elsewhere.serving.url);
    setup.registry.lead_away(StatusCode::UNAUTHORIZED, header::WWW_AUTHENTICATE, &challenge);
    let told = setup.fails(&image, None).await.message;
    let remedy = format!("list '{}' in docker.registries", elsewhere.host());
    for part in ["lets clients sign in at", "a loopback address", &remedy] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(elsewhere.asked.try_recv().is_err(), "the realm was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_does_not_redirect_the_engine_to_a_private_address() {
    let mut elsewhere = Elsewhere::start().await;
    let Some(setup) = Setup::start(lists).await else { return };
    let image = setup.registry.push("led/on:1", "led").image;
    let url = format!("{}/v2/", elsewhere.serving.url);
    setup.registry.lead_away(StatusCode::TEMPORARY_REDIRECT, header::LOCATION, &url);
    let told = setup.fails(&image, None).await.message;
    assert!(told.contains("redirects to") && told.contains("docker.registries"), "{told}");
    assert!(elsewhere.asked.try_recv().is_err(), "the redirect was followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_realm_that_the_operator_lists_gets_the_login() {
    let mut elsewhere = Elsewhere::start().await;
    let host = elsewhere.host();
    let listed = |settings: &mut Settings, registry: &Registry| {
        lists(settings, registry);
        settings.docker.registries.push(host);
        settings.docker.credentials = password_of(registry, "secret");
    };
    let Some(setup) = Setup::start(listed).await else { return };
    let image = setup.registry.push("led/right:1", "led").image;
    let challenge = realm(&elsewhere.serving.url);
    setup.registry.lead_away(StatusCode::UNAUTHORIZED, header::WWW_AUTHENTICATE, &challenge);
    // The token opens nothing here; what matters is who was asked for it.
    setup.fails(&image, None).await;
    assert!(elsewhere.asked.try_recv().is_ok(), "the realm was not asked");
}
