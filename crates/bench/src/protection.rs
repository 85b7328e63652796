//! What tokens and TLS cost durable submissions.
//!
//! Clients keep their connections, so handshakes do not count. The load runs on the same cores, so
//! its own encryption does.

use std::sync::Arc;

use anyhow::Context;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;

use super::load::{self, Peer, Until, put_as};
use super::measure::{Measure, Target, median_round, rate};
use super::process::cpu_time;
use super::scale::Scale;
use testbed::harness::{Cluster, ClusterSpec, noop};

/// As of the rows of submissions.
const CONNECTIONS: u32 = 64;

/// Number of rounds, of which the median counts.
const ROUNDS: usize = 5;

/// An orchestrator under load.
struct Subject {
    cluster: Cluster,
    peer: Peer,
    request: Vec<u8>,
    _data: TempDir,
}

/// Of one load: submissions per second, and CPU time of the orchestrator for each.
#[derive(Debug, Clone, Copy)]
struct Round {
    per_second: f64,
    micros: f64,
}

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let subjects = [
        Subject::start(&[]).await?,
        Subject::start(&[("ORCHESTRATOR_AUTH", "required"), ("ORCHESTRATOR_INSECURE", "true")])
            .await?,
        Subject::start(&[("ORCHESTRATOR_AUTH", "required")]).await?,
    ];
    let mut rounds = Vec::new();
    // Alternate, so that a machine that slows down affects all.
    for _ in 0..ROUNDS {
        let mut round = Vec::new();
        for subject in &subjects {
            round.push(subject.load(Until::Elapsed(scale.window)).await?);
        }
        rounds.push(<[Round; 3]>::try_from(round).expect("a figure of each"));
    }
    let of = |index: usize| {
        let mut pairs: Vec<_> = rounds
            .iter()
            .map(|round| {
                let (it, open) = (round[index], round[0]);
                [it.per_second, open.per_second, it.micros, open.micros]
            })
            .collect();
        median_round(&mut pairs)
    };
    let row = |what: &str, [it, open, micros, open_micros]: [f64; 4], target| {
        let context = format!(
            "{it:.0}/s against {open:.0}/s; the orchestrator's CPU time for each {micros:.0} µs \
             against {open_micros:.0} µs"
        );
        Measure::new(what, (it / open, ""), target, context)
    };
    Ok(vec![
        row("submissions with tokens, of the rate without", of(1), Target::AtLeast(0.8)),
        row("submissions with tokens over TLS, of the rate without", of(2), Target::AtLeast(0.8)),
    ])
}

// === impl Subject ===

impl Subject {
    async fn start(settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let directory = data.path().display().to_string();
        let mut spec = ClusterSpec::new().setting("ORCHESTRATOR_DATA_DIR", &directory);
        for (variable, value) in settings {
            spec = spec.setting(variable, value);
        }
        let cluster = spec.start_without_agents().await;
        let token = std::fs::read_to_string(data.path().join("admin.token")).unwrap_or_default();
        let tls = match cluster.orchestrator.base_url().starts_with("https://") {
            true => Some(Arc::new(trusting(&data.path().join("ca.crt"))?)),
            false => None,
        };
        let peer = Peer { address: cluster.orchestrator.address(), tls };
        let body = json!({ "Job": noop() }).to_string();
        let request = put_as(token.trim(), api_types::routes::JOBS, &body);
        Ok(Self { cluster, peer, request, _data: data })
    }

    async fn load(&self, until: Until) -> anyhow::Result<Round> {
        let pid = self.cluster.orchestrator.pid().context("the orchestrator runs")?;
        let before = cpu_time(pid)?;
        let load = load::run(self.peer.clone(), CONNECTIONS, until, self.request.clone()).await?;
        let used = cpu_time(pid)?.saturating_sub(before);
        #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
        let micros = used.as_secs_f64() * 1e6 / load.requests.max(1) as f64;
        Ok(Round { per_second: rate(load.requests, load.elapsed), micros })
    }
}

fn trusting(ca: &std::path::Path) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).context("read the CA")?)?;
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(crypto).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
