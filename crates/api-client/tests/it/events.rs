//! The event stream, in chunks of any size.

use api_client::{Client, ClientError, EventsQuery, StreamedEvent};
use api_types::history::{EventType, HistoryGap};
use futures_util::{Stream, StreamExt};

use crate::peer::Peer;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

const EVENT: &str = "{\"Type\":\"JobLevel\",\
    \"JobID\":\"j-00000000-0000-0000-0000-000000000001\",\"NodeID\":\"\",\"ExecutionID\":\"\",\
    \"JobState\":{\"Previous\":\"Pending\",\"New\":\"Running\"},\"ExecutionState\":null,\
    \"NewRevision\":2,\"Comment\":\"an execution runs\",\"Time\":\"2026-01-01T00:00:00.000000000Z\"}";

async fn stream_of(
    text: &str,
    query: &EventsQuery,
) -> (Peer, impl Stream<Item = Result<StreamedEvent, ClientError>> + Unpin + use<>) {
    let mut parts = vec![HEAD.as_bytes().to_vec()];
    parts.extend(text.as_bytes().chunks(7).map(<[u8]>::to_vec));
    let peer = Peer::responding(parts).await;
    let client = Client::new(&peer.base_url).expect("a base URL");
    let stream = client.events(query).await.expect("the stream opens");
    (peer, stream)
}

#[tokio::test]
async fn events_gaps_and_positions_are_distinguished() {
    let text = format!(
        ": events after 4\nretry: 1000\nid: 4\n\nid: 5\ndata: {EVENT}\n\n: keep-alive\n\n\
         id: 9\r\nevent: gap\r\ndata: {{\"From\":6,\"To\":9}}\r\n\r\nid: 12\n\n\
         id: 13\ndata: {{\"Type\":\"Job"
    );
    let query = EventsQuery {
        job_id: Some("j-00000000".to_owned()),
        event_type: Some("job".to_owned()),
        last_event_id: Some(4),
        ..EventsQuery::default()
    };
    let (peer, stream) = stream_of(&text, &query).await;
    let received: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert_eq!(received.len(), 4, "the last block is incomplete: {received:?}");
    assert_eq!(received[0], StreamedEvent::Position { id: 4 });
    let StreamedEvent::History { id: 5, event } = &received[1] else { panic!("{:?}", received[1]) };
    assert_eq!((event.event_type, event.new_revision), (EventType::JobLevel, 2));
    assert_eq!(received[2], StreamedEvent::Gap { id: 9, gap: HistoryGap { from: 6, to: 9 } });
    assert_eq!(received[3], StreamedEvent::Position { id: 12 });
    let request = peer.request().await;
    let path = "GET /api/v1/orchestrator/events?job_id=j-00000000&event_type=job ";
    assert!(request.starts_with(path), "{request}");
    assert!(request.to_lowercase().contains("\r\nlast-event-id: 4\r\n"), "{request}");
}

#[tokio::test]
async fn an_unknown_item_ends_the_stream_with_an_error() {
    for text in [
        "id: 5\ndata: {\"Riddle\":1}\n\n",
        "id: five\n\n",
        "data: {}\n\n",
        "id: 5\nevent: riddle\ndata: {}\n\n",
    ] {
        let (_peer, mut stream) = stream_of(text, &EventsQuery::default()).await;
        let error = stream.next().await.unwrap().unwrap_err();
        assert!(matches!(error, ClientError::Protocol { .. }), "{text}: {error}");
        assert!(stream.next().await.is_none());
    }
}
