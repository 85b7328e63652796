//! `next_token`: the position after which the next page begins, and the order it belongs to.
//!
//! A position names a row by its sort key and id, never by its number, so concurrent inserts and
//! removals neither repeat nor hide other rows. The checksum is no secret: it detects tokens that
//! were truncated or made up.

use api_types::{ExecutionId, JobId, NodeId, Timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use control_plane::store::{ExecutionPosition, JobPosition, ResultPosition};
use ring::digest;
use uuid::Uuid;

use super::error::{BadRequest, Failure};

/// Incremented when the token format changes; older tokens are refused.
const FORMAT: u8 = 1;

const CHECKSUM_BYTES: usize = 8;

/// Longer than any token; longer input is not decoded.
const MAX_TOKEN_CHARS: usize = 128;

/// Which list a token belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Jobs = 1,
    Executions = 2,
    History = 3,
    Results = 4,
    Nodes = 5,
    NodeHistory = 6,
    LiveExecutions = 7,
    Audit = 8,
    Graphs = 9,
}

/// A list in one of its orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listing {
    pub list: List,
    pub order: u8,
    pub reverse: bool,
    /// The job or node whose parts are listed, if any.
    pub of: Option<Uuid>,
}

/// The position of a row.
pub(super) trait Position: Sized {
    fn write(&self, out: &mut Vec<u8>);
    fn read(bytes: &mut Reader<'_>) -> Option<Self>;
}

/// The position of a node: its sort key (0 when ordered by id), and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodePosition {
    pub key: u64,
    pub id: NodeId,
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

// === impl Listing ===

impl Listing {
    /// The token of the last row of a page, or the empty one on the last page.
    pub(super) fn token<P: Position>(&self, last: Option<P>, more: bool) -> String {
        let Some(last) = last.filter(|_| more) else { return String::new() };
        let mut bytes = self.head().to_vec();
        last.write(&mut bytes);
        let checksum = self.checksum(&bytes);
        bytes.extend_from_slice(&checksum);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The position that a token names.
    pub(super) fn position<P: Position>(&self, token: Option<&str>) -> Result<Option<P>, Failure> {
        let Some(token) = token else { return Ok(None) };
        let refused = |reason| Failure::from(BadRequest::NextToken { reason });
        let broken = || refused("the next_token is incomplete or altered");
        if token.len() > MAX_TOKEN_CHARS {
            return Err(broken());
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| broken())?;
        let head = self.head();
        let foreign = |reason| Err(refused(reason));
        match (bytes.first(), bytes.get(1), bytes.get(..head.len())) {
            (Some(&FORMAT), Some(list), Some(_)) if *list != head[1] => {
                return foreign("the next_token belongs to another operation");
            }
            (Some(&FORMAT), _, Some(found)) if found != head => {
                return foreign("the next_token belongs to another order");
            }
            (Some(&FORMAT), _, Some(_)) => {}
            _ => return Err(broken()),
        }
        let (signed, checksum) = bytes.split_at(bytes.len().saturating_sub(CHECKSUM_BYTES));
        if self.checksum(signed) != checksum {
            return Err(broken());
        }
        let mut reader = Reader { rest: signed.get(head.len()..).unwrap_or_default() };
        let position = P::read(&mut reader).filter(|_| reader.rest.is_empty());
        position.map(Some).ok_or_else(broken)
    }

    fn head(&self) -> [u8; 4] {
        [FORMAT, self.list as u8, self.order, u8::from(self.reverse)]
    }

    fn checksum(&self, bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(bytes);
        if let Some(of) = self.of {
            context.update(of.as_bytes());
        }
        let mut checksum = [0; CHECKSUM_BYTES];
        checksum.copy_from_slice(&context.finish().as_ref()[..CHECKSUM_BYTES]);
        checksum
    }
}

// === impl Reader ===

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    fn uuid(&mut self) -> Option<Uuid> {
        self.take().map(Uuid::from_bytes)
    }
}

// === impl Position ===

impl Position for JobPosition {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.time.0.to_be_bytes());
        out.extend(self.id.uuid().as_bytes());
    }

    fn read(bytes: &mut Reader<'_>) -> Option<Self> {
        let time = Timestamp(bytes.i64()?);
        Some(Self { time, id: JobId::from_uuid(bytes.uuid()?) })
    }
}

impl Position for ExecutionPosition {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.key.to_be_bytes());
        out.extend(self.id.uuid().as_bytes());
    }

    fn read(bytes: &mut Reader<'_>) -> Option<Self> {
        Some(Self { key: bytes.i64()?, id: ExecutionId::from_uuid(bytes.uuid()?) })
    }
}

impl Position for ResultPosition {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.index.to_be_bytes());
        out.extend(self.create_time.0.to_be_bytes());
        out.extend(self.id.uuid().as_bytes());
    }

    fn read(bytes: &mut Reader<'_>) -> Option<Self> {
        let index = u32::from_be_bytes(bytes.take()?);
        let create_time = Timestamp(bytes.i64()?);
        Some(Self { index, create_time, id: ExecutionId::from_uuid(bytes.uuid()?) })
    }
}

/// The sequence of an event.
impl Position for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_be_bytes());
    }

    fn read(bytes: &mut Reader<'_>) -> Option<Self> {
        bytes.u64()
    }
}

impl Position for NodePosition {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.key.to_be_bytes());
        out.extend(self.id.uuid().as_bytes());
    }

    fn read(bytes: &mut Reader<'_>) -> Option<Self> {
        Some(Self { key: bytes.u64()?, id: NodeId::from_uuid(bytes.uuid()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: Listing = Listing { list: List::Jobs, order: 0, reverse: false, of: None };

    fn position() -> JobPosition {
        let id = JobId::from_uuid(Uuid::from_u128(7));
        JobPosition { time: Timestamp(-5), id }
    }

    fn reason(listing: &Listing, token: &str) -> &'static str {
        match listing.position::<JobPosition>(Some(token)).unwrap_err() {
            Failure::BadRequest(BadRequest::NextToken { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_token_names_its_position() {
        let token = JOBS.token(Some(position()), true);
        assert_eq!(JOBS.position(Some(&token)).unwrap(), Some(position()));
        assert_eq!(JOBS.token(Some(position()), false), "");
        assert_eq!(JOBS.token::<JobPosition>(None, true), "");
    }

    #[test]
    fn a_token_of_another_order_or_operation_is_refused() {
        let token = JOBS.token(Some(position()), true);
        let another = "the next_token belongs to another order";
        assert_eq!(reason(&Listing { order: 1, ..JOBS }, &token), another);
        assert_eq!(reason(&Listing { reverse: true, ..JOBS }, &token), another);
        assert_eq!(
            reason(&Listing { list: List::Nodes, ..JOBS }, &token),
            "the next_token belongs to another operation"
        );
        let of_a_job = Listing { of: Some(position().id.uuid()), ..JOBS };
        assert_eq!(reason(&of_a_job, &token), "the next_token is incomplete or altered");
    }

    #[test]
    fn an_altered_token_is_refused() {
        let token = JOBS.token(Some(position()), true);
        for at in 6..token.len() {
            let mut tampered = token.clone().into_bytes();
            tampered[at] = if tampered[at] == b'A' { b'B' } else { b'A' };
            let tampered = String::from_utf8(tampered).unwrap();
            assert!(JOBS.position::<JobPosition>(Some(&tampered)).is_err(), "{at}");
        }
        for broken in ["", "AQ", "x y", "ü", &token[..token.len() - 1], &"A".repeat(500)] {
            assert!(JOBS.position::<JobPosition>(Some(broken)).is_err(), "{broken}");
        }
    }
}
