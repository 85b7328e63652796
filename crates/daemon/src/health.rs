//! Probes a daemon on this machine for readiness.
//!
//! For callers that can only start a program: a container's health check, a script.
//!
//! It speaks the minimum of HTTP, so that a daemon needs no client library for it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

mod any_certificate;

/// A daemon that takes longer to answer is not ready. Its own readiness check takes at most 5
/// seconds.
const PROBE_TIMEOUT: Duration = Duration::from_secs(8);

/// The rest of the response is not read: its first bytes hold the status, then the message.
const ANSWER_BYTES: u64 = 4096;

/// Why the daemon is not ready.
#[derive(Debug, thiserror::Error)]
pub enum Unhealthy {
    #[error("nothing answers at {address}: {source}")]
    Silent { address: SocketAddr, source: std::io::Error },
    #[error("not ready: {message}")]
    NotReady { message: String },
}

/// What the daemon speaks on its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// Requests this path from the daemon that listens on this address.
pub fn ask(scheme: Scheme, listen: SocketAddr, path: &str) -> Result<(), Unhealthy> {
    let address = reachable(listen);
    let answer =
        get(scheme, address, path).map_err(|source| Unhealthy::Silent { address, source })?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(()),
        _ => {
            let message = if body.is_empty() { head } else { body };
            Err(Unhealthy::NotReady { message: message.trim().to_owned() })
        }
    }
}

/// For a daemon that listens on every address, use loopback.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn get(scheme: Scheme, address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
    // HTTP/1.0: the response is not chunked and ends with the connection. Send it in one write: a
    // server may answer early and close before a second one.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    match scheme {
        Scheme::Http => exchange(&mut stream, &request),
        Scheme::Https => {
            let mut connection = any_certificate::connection(address.ip())?;
            exchange(&mut rustls::Stream::new(&mut connection, &mut stream), &request)
        }
    }
}

fn exchange<S: Read + Write>(stream: &mut S, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A server that gives one response.
    fn answering(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let read = stream.read(&mut request).unwrap();
            assert!(request[..read].starts_with(b"GET /readyz HTTP/1.0\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn only_200_is_ready() {
        let ready = answering("HTTP/1.1 200 OK\r\n\r\n{}");
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, ready.port()));
        ask(Scheme::Http, everywhere, "/readyz").unwrap();
        let stopping = answering("HTTP/1.0 503 Service Unavailable\r\nx: y\r\n\r\nit stops\n");
        let error = ask(Scheme::Http, stopping, "/readyz").unwrap_err();
        assert_eq!(error.to_string(), "not ready: it stops");
    }

    #[test]
    fn an_unreachable_daemon_is_reported_with_its_address() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = ask(Scheme::Http, free, "/readyz").unwrap_err().to_string();
        assert!(error.starts_with(&format!("nothing answers at {free}: ")), "{error}");
    }
}
