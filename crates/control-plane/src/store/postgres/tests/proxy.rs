//! A socket between the store and its server, which stops, breaks or cuts one commit.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use postgres_server::TestDatabase;
use tempfile::TempDir;

use super::super::Database;

const SOCKET: &str = ".s.PGSQL.5432";

/// What happens to the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its client stops after the fence was sent, as one does that is stopped by a signal.
    StopAfterFence,
    /// Its first statement fails.
    BreakBegin,
    /// It is stored, and its client does not learn that.
    LoseAnswer,
    /// Its client is gone before it has sent COMMIT.
    CutBeforeCommit,
}

pub(super) struct Proxy {
    directory: TempDir,
    url: String,
    next: Arc<Mutex<Option<Fault>>>,
}

/// A message of the client, with its type.
struct Message {
    kind: u8,
    bytes: Vec<u8>,
}

// === impl Proxy ===

impl Proxy {
    pub(super) fn start(database: &TestDatabase) -> Self {
        let directory = tempfile::Builder::new().prefix("jobs-proxy-").tempdir().unwrap();
        let server = database.socket_directory().join(SOCKET);
        let url = database.url.replace(
            database.socket_directory().to_str().unwrap(),
            directory.path().to_str().unwrap(),
        );
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let next = Arc::<Mutex<Option<Fault>>>::default();
        let faults = Arc::clone(&next);
        // It ends with the process.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                serve(client, &server, &faults);
            }
        });
        Self { directory, url, next }
    }

    pub(super) fn database(&self) -> Database {
        assert!(self.directory.path().exists());
        Database::new(&self.url, None).unwrap()
    }

    pub(super) fn fail_next(&self, fault: Fault) {
        *self.next.lock().unwrap() = Some(fault);
    }

    /// Whether the fault has happened.
    pub(super) fn has_failed(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }
}

fn serve(client: UnixStream, server: &Path, faults: &Arc<Mutex<Option<Fault>>>) {
    let Ok(server) = UnixStream::connect(PathBuf::from(server)) else { return };
    let loses = Arc::<AtomicBool>::default();
    let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let (faults, discards) = (Arc::clone(faults), Arc::clone(&loses));
    std::thread::spawn(move || answers(from_server, to_client, &discards));
    std::thread::spawn(move || requests(client, server, &faults, &loses));
}

/// Ends silently with either side, as a network does.
fn answers(mut server: UnixStream, mut client: UnixStream, loses: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        if loses.load(Ordering::Acquire) {
            if buffer[..length].windows(7).any(|part| part == b"COMMIT\0") {
                break;
            }
        } else if client.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn requests(
    mut client: UnixStream,
    mut server: UnixStream,
    faults: &Mutex<Option<Fault>>,
    loses: &AtomicBool,
) {
    let mut fault = None;
    let mut is_first = true;
    let mut executed = false;
    while let Some(mut message) = Message::read(&mut client, is_first) {
        is_first = false;
        if message.is_query("BEGIN ISOLATION") {
            fault = faults.lock().unwrap().take();
            executed = false;
            if fault == Some(Fault::BreakBegin) {
                message.bytes[5..10].copy_from_slice(b"BEGIX");
            }
        }
        let is_commit = message.is_query("COMMIT");
        match fault {
            Some(Fault::StopAfterFence) if executed => {
                // What it would send next never arrives; a Sync is part of the statement.
                if message.kind == b'S' {
                    let _ = server.write_all(&message.bytes);
                }
                let _ = client.read(&mut [0]);
                std::thread::park();
            }
            Some(Fault::LoseAnswer) if is_commit => loses.store(true, Ordering::Release),
            Some(Fault::CutBeforeCommit) if is_commit => break,
            Some(_) | None => {}
        }
        executed |= message.kind == b'E';
        if server.write_all(&message.bytes).is_err() {
            break;
        }
    }
    if !loses.load(Ordering::Acquire) {
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }
}

// === impl Message ===

impl Message {
    /// None when the client is gone. The first message has no type.
    fn read(client: &mut UnixStream, is_first: bool) -> Option<Self> {
        let head = if is_first { 4 } else { 5 };
        let mut bytes = vec![0; head];
        client.read_exact(&mut bytes).ok()?;
        let length = u32::from_be_bytes(*bytes[head - 4..].first_chunk()?) as usize;
        let kind = if is_first { 0 } else { bytes[0] };
        bytes.resize(head - 4 + length, 0);
        client.read_exact(&mut bytes[head..]).ok()?;
        Some(Self { kind, bytes })
    }

    fn is_query(&self, text: &str) -> bool {
        self.kind == b'Q' && self.bytes[5..].starts_with(text.as_bytes())
    }
}
