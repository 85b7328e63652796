//! `jobctl login --oidc` and `--id-token-file`: signing in at the issuer that the service trusts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use oidc::{Callback, Flow, Provider, Refused, SEED_BYTES};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::config::{Target, read_token};
use crate::exit::UsageError;
use crate::output::note;
use crate::prompt;

/// Where the issuer sends the browser back.
const CALLBACK: &str = "/callback";

/// How long a person has to sign in.
const SIGNS_IN_WITHIN: Duration = Duration::from_secs(600);

/// How long a browser may take to send a request.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// The longest head of a request; a code and a state are far shorter.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// What the browser shows in the end.
const GOES_ON: &str = "The sign-in goes on in the terminal. You can close this page.";
const ENDED: &str = "The issuer has not signed you in. The terminal shows the reason.";
const NOT_HERE: &str = "jobctl is waiting for another page.";

/// Trades the ID token of a file for a token.
pub(super) async fn with_id_token(target: &Target, path: &Path) -> Result<String> {
    let id_token = match path.as_os_str() == "-" {
        true => prompt::line()?.trim().to_owned(),
        false => read_token(path)?,
    };
    if id_token.is_empty() {
        return Err(UsageError::new("no ID token was given").into());
    }
    exchange(target, &id_token).await
}

/// Has the user sign in with a browser on this machine, which comes back to a port of this program.
pub(super) async fn with_browser(target: &Target) -> Result<String> {
    let methods = anonymous(target)?.sign_in_methods().await?;
    let Some(issuer) = methods.oidc else {
        return Err(UsageError::new(format!("{} has no issuer to sign in at", target.url))
            .with_hint("sign in with a token: jobctl login")
            .into());
    };
    if issuer.confidential {
        let message = "the service's client at the issuer has a secret, which jobctl does not know";
        return Err(UsageError::new(message)
            .with_hint("ask for one without (oidc.cli_client_id), or sign in with a token or --id-token-file")
            .into());
    }
    let ca = Some(issuer.ca.as_str()).filter(|ca| !ca.is_empty());
    let provider = Provider::new(&issuer.issuer, ca).context("use the issuer of the service")?;
    let client = oidc::Client { id: issuer.client_id, secret: None, scopes: issuer.scopes };
    let metadata = provider.discover().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listen for the browser")?;
    let port = listener.local_addr().context("listen for the browser")?.port();
    let redirect_uri = format!("http://127.0.0.1:{port}{CALLBACK}");
    let flow = Arc::new(Flow::of_seed(&seed()?));
    let url = flow.authorization_url(&provider, &metadata, &client, &redirect_uri)?;
    note(&format!("Open this page in a browser on this machine to sign in:\n\n  {url}\n"));
    let returned = returned(listener, Arc::clone(&flow), issuer.issuer);
    let callback = timeout(SIGNS_IN_WITHIN, returned).await.map_err(|_| {
        anyhow!(
            "no sign-in within {} minutes; try again, and open the page on this machine",
            SIGNS_IN_WITHIN.as_secs() / 60
        )
    })??;
    let id_token = flow.redeem(&provider, &metadata, &client, &callback, &redirect_uri).await?;
    // It came directly from the issuer; the service verifies its signature.
    if oidc::nonce_of(&id_token).as_deref() != Some(flow.nonce()) {
        return Err(anyhow!("the issuer returned an ID token of another sign-in"));
    }
    exchange(target, &id_token).await
}

async fn exchange(target: &Target, id_token: &str) -> Result<String> {
    Ok(anonymous(target)?.exchange_id_token(id_token).await?.secret)
}

/// A client without the token that an earlier sign-in has left.
fn anonymous(target: &Target) -> Result<api_client::Client> {
    Target { token: None, ..target.clone() }.client()
}

fn seed() -> Result<[u8; SEED_BYTES]> {
    let mut seed = [0; SEED_BYTES];
    let filled = SystemRandom::new().fill(&mut seed);
    filled.map_err(|_| anyhow!("the system has no randomness"))?;
    Ok(seed)
}

/// Answers every connection until the browser of this flow comes back. Others, such as a page that
/// tries ports, end nothing.
async fn returned(listener: TcpListener, flow: Arc<Flow>, issuer: String) -> Result<Callback> {
    let (found, mut ended) = mpsc::channel(1);
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (flow, issuer, found) = (Arc::clone(&flow), issuer.clone(), found.clone());
            tokio::spawn(async move {
                let served = timeout(REQUEST_WITHIN, serve(stream, &flow, &issuer)).await;
                if let Ok(Some(outcome)) = served {
                    // The first one is waited for.
                    let _ = found.try_send(outcome);
                }
            });
        }
    });
    let outcome = ended.recv().await;
    accepting.abort();
    let outcome = outcome.ok_or_else(|| anyhow!("the port for the browser was lost"))?;
    outcome.map_err(|refused| anyhow!("the sign-in failed: {refused}"))
}

/// What one request says of this flow, if anything.
async fn serve(
    mut stream: TcpStream,
    flow: &Flow,
    issuer: &str,
) -> Option<Result<Callback, Refused>> {
    let head = head(&mut stream).await?;
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let outcome = (path == CALLBACK).then(|| flow.callback(issuer, query));
    let (status, text) = match &outcome {
        Some(Ok(_)) => ("200 OK", GOES_ON),
        Some(Err(Refused::OtherFlow)) | None => ("404 Not Found", NOT_HERE),
        Some(Err(_)) => ("400 Bad Request", ENDED),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    // Whether the browser shows it changes nothing.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    outcome.filter(|outcome| *outcome != Err(Refused::OtherFlow))
}

/// The head of a request.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if head.len() > MAX_HEAD_BYTES || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    String::from_utf8(head).ok()
}
