//! The assignments stream: lines that arrive in pieces, are incomplete, or never end.

use api_client::{Client, ClientError, MAX_LINE_BYTES};
use api_types::NodeId;
use api_types::protocol::AssignmentLine;
use futures_util::{Stream, StreamExt};
use uuid::Uuid;

use crate::peer::Peer;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

async fn stream_of(
    body: Vec<Vec<u8>>,
) -> (Peer, impl Stream<Item = Result<AssignmentLine, ClientError>> + Unpin) {
    let mut parts = vec![HEAD.as_bytes().to_vec()];
    parts.extend(body);
    let peer = Peer::responding(parts).await;
    let client = Client::new(&peer.base_url).expect("a base URL");
    let node_id = NodeId::from_uuid(Uuid::from_u128(7));
    let stream = client.assignments(node_id, 3).await.expect("the stream opens");
    (peer, stream)
}

#[tokio::test]
async fn lines_are_split_correctly_in_chunks_of_any_size() {
    let text = "{\"Type\":\"Snapshot\",\"Executions\":0}\n\n{\"Type\":\"KeepAlive\"}\r\n\
                {\"Type\":\"Riddle\",\"Answer\":[42]}\n";
    let mut body: Vec<_> = text.as_bytes().chunks(5).map(chunk).collect();
    body.push(chunk(b"{\"Type\":\"KeepAlive\"}\n{\"Type\":\"Ke"));
    body.push(chunk(b""));
    let (peer, stream) = stream_of(body).await;
    let lines: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert_eq!(
        lines,
        [
            AssignmentLine::Snapshot { executions: 0 },
            AssignmentLine::KeepAlive,
            // From a newer release.
            AssignmentLine::Unknown,
            AssignmentLine::KeepAlive,
        ],
        "the last line is incomplete"
    );
    let request = peer.request().await;
    let path = "GET /api/v1/orchestrator/nodes/n-00000000-0000-0000-0000-000000000007/assignments?session=3 ";
    assert!(request.starts_with(path), "{request}");
}

#[tokio::test]
async fn an_invalid_line_ends_the_stream_with_an_error() {
    let (_peer, mut stream) =
        stream_of(vec![chunk(b"{\"Type\":\"Snapshot\"}\n{\"Type\":\"KeepAlive\"}\n"), chunk(b"")])
            .await;
    assert!(matches!(stream.next().await, Some(Err(ClientError::Protocol { .. }))));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_broken_connection_is_an_error_and_not_the_end() {
    let (_peer, mut stream) = stream_of(vec![chunk(b"{\"Type\":\"KeepAlive\"}\n")]).await;
    assert!(matches!(stream.next().await, Some(Ok(AssignmentLine::KeepAlive))));
    assert!(matches!(stream.next().await, Some(Err(ClientError::Unreachable { .. }))));
}

#[tokio::test]
async fn a_line_without_end_is_not_buffered_forever() {
    let megabyte = chunk(&[b'x'; 1 << 20]);
    let body = vec![megabyte; (MAX_LINE_BYTES >> 20) + 2];
    let (_peer, mut stream) = stream_of(body).await;
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("longer than"), "{error}");
}
