//! What a follower says of a connection that it passes on: the address of its client.
//!
//! It is a header of version 2 of the PROXY protocol (haproxy.org, proxy-protocol.txt), which names
//! the client and the address that the client connected to. A TLV of a type for own use authenticates
//! it with a key that the leader makes when it takes over. It is not encrypted: those who read the
//! network could repeat it, so an address is all that it decides.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ring::hmac;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::tls::HANDSHAKE_TIMEOUT;

/// Begins every header; no request and no TLS handshake begins like this.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Version 2, and a connection that is passed on.
const PROXY: u8 = 0x21;

const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

/// A type that the protocol leaves to applications.
const TLV_AUTHENTICATION: u8 = 0xE5;

/// SHA-256.
const TAG_BYTES: usize = 32;

const FIXED_BYTES: usize = SIGNATURE.len() + 4;
const TLV_BYTES: usize = 3 + TAG_BYTES;

/// The addresses and ports of two IPv6 sockets.
const MAX_ADDRESS_BYTES: usize = 36;

/// Pause between two views of a beginning that is not complete. A header is sent in one piece.
const PEEK_PAUSE: Duration = Duration::from_millis(20);

/// The key of a leader, with which its followers authenticate what they pass on.
pub struct PassKey(hmac::Key);

/// The followers from whom a listener takes connections.
#[derive(Clone)]
pub struct Prefaces(Arc<Terms>);

struct Terms {
    key: PassKey,
    /// A listener that is open to its own machine must not be reached from another one.
    only_loopback: bool,
    refused: Box<dyn Fn() + Send + Sync>,
}

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// With what its client sends.
    Client,
    /// With a header, whether it is genuine or not.
    Preface,
}

/// Why a connection ended before its first request.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrefaceError {
    #[error("nothing was sent within {} seconds", HANDSHAKE_TIMEOUT.as_secs())]
    Slow,
    #[error(transparent)]
    Failed(#[from] io::Error),
    #[error("the header of a connection that was passed on is refused: {0}")]
    Refused(Flaw),
}

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flaw {
    #[error("it does not have the form that orchestrators write")]
    Malformed,
    #[error("it was made with another key than that of this leader")]
    Forged,
    #[error("{0} is on another machine, and this listener serves its own machine only")]
    NotLoopback(IpAddr),
}

// === impl PassKey ===

impl PassKey {
    pub fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The header for a connection between these addresses, the client's first.
    pub fn header(&self, client: SocketAddr, reached: SocketAddr) -> Vec<u8> {
        let mut header = Vec::with_capacity(FIXED_BYTES + MAX_ADDRESS_BYTES + TLV_BYTES);
        header.extend_from_slice(&SIGNATURE);
        let (family, addresses) = match (client.ip(), reached.ip()) {
            (IpAddr::V4(client), IpAddr::V4(reached)) => {
                (TCP_OVER_IPV4, [client.octets(), reached.octets()].concat())
            }
            (client, reached) => (TCP_OVER_IPV6, [v6(client), v6(reached)].concat()),
        };
        let ports = [client.port().to_be_bytes(), reached.port().to_be_bytes()].concat();
        let rest = u16::try_from(addresses.len() + ports.len() + TLV_BYTES).expect("under 100");
        header.extend_from_slice(&[PROXY, family]);
        header.extend_from_slice(&rest.to_be_bytes());
        header.extend_from_slice(&addresses);
        header.extend_from_slice(&ports);
        header.extend_from_slice(&TLV_HEAD);
        let tag = hmac::sign(&self.0, &header);
        header.extend_from_slice(tag.as_ref());
        header
    }

    /// The client that a complete header names.
    fn client(&self, header: &[u8]) -> Result<IpAddr, Flaw> {
        let (signed, tag) = header.split_last_chunk::<TAG_BYTES>().ok_or(Flaw::Malformed)?;
        let (client, port_bytes) = match (signed.get(13), signed.get(FIXED_BYTES..)) {
            (Some(&TCP_OVER_IPV4), Some([a, b, c, d, rest @ ..])) => {
                (IpAddr::V4(Ipv4Addr::new(*a, *b, *c, *d)), rest.strip_suffix(&TLV_HEAD))
            }
            (Some(&TCP_OVER_IPV6), Some(rest)) => {
                let (client, rest) = rest.split_first_chunk::<16>().ok_or(Flaw::Malformed)?;
                (IpAddr::V6(Ipv6Addr::from(*client)), rest.strip_suffix(&TLV_HEAD))
            }
            _ => return Err(Flaw::Malformed),
        };
        let own_and_ports = if client.is_ipv4() { 4 + 4 } else { 16 + 4 };
        if signed[12] != PROXY || port_bytes.map(<[u8]>::len) != Some(own_and_ports) {
            return Err(Flaw::Malformed);
        }
        hmac::verify(&self.0, signed, tag).map_err(|_| Flaw::Forged)?;
        Ok(client)
    }
}

/// The head of the last TLV: its type, and the length of what follows.
const TLV_HEAD: [u8; 3] = [TLV_AUTHENTICATION, 0, 32];

fn v6(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Waits until it is known how the connection begins, and takes nothing from it.
pub async fn beginning(stream: &TcpStream) -> io::Result<Beginning> {
    let mut first = [0; SIGNATURE.len()];
    loop {
        let seen = stream.peek(&mut first).await?;
        let may_be = first[..seen] == SIGNATURE[..seen];
        match seen {
            // The end, which the reader of the connection reports.
            0 => return Ok(Beginning::Client),
            _ if !may_be => return Ok(Beginning::Client),
            _ if seen == SIGNATURE.len() => return Ok(Beginning::Preface),
            _ => tokio::time::sleep(PEEK_PAUSE).await,
        }
    }
}

// === impl Prefaces ===

impl Prefaces {
    /// `refused` is called for each connection with a header that is not accepted.
    pub fn new(
        key: PassKey,
        only_loopback: bool,
        refused: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Terms { key, only_loopback, refused: Box::new(refused) }))
    }

    /// The client of a connection, without the header of one that was passed on.
    pub(super) async fn client(
        &self,
        stream: &mut TcpStream,
        peer: IpAddr,
    ) -> Result<IpAddr, PrefaceError> {
        let reading = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.read(stream, peer));
        let read = reading.await.unwrap_or(Err(PrefaceError::Slow));
        if let Err(PrefaceError::Refused(_)) = read {
            (self.0.refused)();
        }
        read
    }

    async fn read(&self, stream: &mut TcpStream, peer: IpAddr) -> Result<IpAddr, PrefaceError> {
        match beginning(stream).await? {
            Beginning::Client => return Ok(peer),
            Beginning::Preface => {}
        }
        let mut header = [0; FIXED_BYTES + MAX_ADDRESS_BYTES + TLV_BYTES];
        let (fixed, rest) = header.split_at_mut(FIXED_BYTES);
        stream.read_exact(fixed).await?;
        let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
        let rest = rest.get_mut(..length).ok_or(PrefaceError::Refused(Flaw::Malformed))?;
        stream.read_exact(rest).await?;
        let client = self.0.key.client(&header[..FIXED_BYTES + length]);
        let client = client.map_err(PrefaceError::Refused)?;
        if self.0.only_loopback && !client.to_canonical().is_loopback() {
            return Err(PrefaceError::Refused(Flaw::NotLoopback(client)));
        }
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_header_is_one_of_the_proxy_protocol_with_both_addresses() {
        let header = PassKey::new(&KEY).header(address("192.0.2.1:258"), address("10.0.0.1:3"));
        let expected = [
            &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x2f"[..],
            &[192, 0, 2, 1, 10, 0, 0, 1, 1, 2, 0, 3, 0xE5, 0, 32],
        ];
        assert_eq!(header[..31], expected.concat());
        assert_eq!(header.len(), 31 + 32);
    }

    #[test]
    fn what_was_written_is_read_and_any_changed_byte_is_noticed() {
        let key = PassKey::new(&KEY);
        for (client, reached) in [
            ("192.0.2.1:258", "10.0.0.1:3"),
            ("[2001:db8::1]:1", "[::1]:2"),
            ("[::ffff:192.0.2.1]:1", "[::ffff:10.0.0.1]:2"),
        ] {
            let header = key.header(address(client), address(reached));
            assert_eq!(key.client(&header), Ok(address(client).ip()));
            assert_eq!(PassKey::new(&[8; 32]).client(&header), Err(Flaw::Forged));
            for at in 0..header.len() {
                let mut changed = header.clone();
                changed[at] ^= 1;
                key.client(&changed).unwrap_err();
                key.client(&header[..at]).unwrap_err();
            }
            let longer = [&header[..], &[0]].concat();
            key.client(&longer).unwrap_err();
        }
    }

    /// What a listener finds at the beginning of a connection, and what is left of it.
    async fn sent(
        prefaces: &Prefaces,
        pieces: &[&[u8]],
    ) -> (Result<IpAddr, PrefaceError>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut client, (mut stream, peer)) = (client.unwrap(), accepted.unwrap());
        let sending = async {
            for piece in pieces {
                client.write_all(piece).await.unwrap();
                tokio::time::sleep(PEEK_PAUSE / 2).await;
            }
            client.shutdown().await.unwrap();
        };
        let (found, ()) = tokio::join!(prefaces.client(&mut stream, peer.ip()), sending);
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
        (found, rest)
    }

    #[tokio::test]
    async fn a_connection_has_the_client_that_a_genuine_header_names_or_its_own_peer() {
        let loopback: IpAddr = [127, 0, 0, 1].into();
        let prefaces = Prefaces::new(PassKey::new(&KEY), false, || panic!("refused"));
        let header = PassKey::new(&KEY).header(address("192.0.2.1:1"), address("127.0.0.1:2"));
        let (start, end) = header.split_at(5);
        for (pieces, client, rest) in [
            (&[&header[..], b"GET"][..], address("192.0.2.1:1").ip(), &b"GET"[..]),
            (&[start, end, b"\x16"], address("192.0.2.1:1").ip(), b"\x16"),
            (&[b"GET / HTTP/1.1"], loopback, b"GET / HTTP/1.1"),
            (&[b"\r\n", b"GET / HTTP/1.1"], loopback, b"\r\nGET / HTTP/1.1"),
            (&[], loopback, b""),
        ] {
            let (found, left) = sent(&prefaces, pieces).await;
            assert_eq!((found.unwrap(), &left[..]), (client, rest));
        }
    }

    #[tokio::test]
    async fn a_header_of_no_follower_is_refused_and_counted() {
        let (sender, refusals) = std::sync::mpsc::channel();
        let refused = move || sender.send(()).unwrap();
        let prefaces = Prefaces::new(PassKey::new(&KEY), true, refused);
        let key = PassKey::new(&KEY);
        let other = PassKey::new(&[8; 32]);
        let (here, there) = (address("127.0.0.1:1"), address("192.0.2.1:1"));
        let mut local = key.header(here, here);
        local[12] = 0x20;
        let endless = [&SIGNATURE[..], &[PROXY, TCP_OVER_IPV4, 0xFF, 0xFF]].concat();
        for (header, flaw) in [
            (other.header(here, here), Flaw::Forged),
            (key.header(there, here), Flaw::NotLoopback(there.ip())),
            (local, Flaw::Malformed),
            (endless, Flaw::Malformed),
        ] {
            match sent(&prefaces, &[&header[..]]).await.0 {
                Err(PrefaceError::Refused(found)) => assert_eq!(found, flaw),
                other => panic!("{flaw}: {other:?}"),
            }
            refusals.try_recv().expect("it is counted");
        }
        assert_eq!(sent(&prefaces, &[&key.header(here, here)]).await.0.unwrap(), here.ip());
        refusals.try_recv().unwrap_err();
    }
}
