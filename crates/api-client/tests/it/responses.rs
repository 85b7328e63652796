//! Requests with whole responses, and errors.

use api_client::{Client, ClientError, HistoryQuery};
use api_types::Code;
use api_types::submission::JobSubmission;

use crate::peer::Peer;

const JOB: &str = "j-12ab34cd-0000-4000-8000-0123456789ab";
const EVALUATION: &str = "v-12ab34cd-0000-4000-8000-0123456789ab";

#[tokio::test]
async fn a_job_is_sent_in_the_format_of_the_api() {
    let peer = Peer::json(
        "200 OK",
        &format!(r#"{{"JobID":"{JOB}","EvaluationID":"{EVALUATION}","Warnings":["w"]}}"#),
    )
    .await;
    let client = Client::new(&peer.base_url).unwrap();
    let job = JobSubmission {
        name: Some("x".to_owned()),
        job_type: Some("batch".to_owned()),
        ..JobSubmission::default()
    };
    let response = client.create_job(&job, Some("key-1")).await.unwrap();
    assert_eq!(response.job_id.to_string(), JOB);
    assert_eq!(response.warnings, ["w"]);
    let request = peer.request().await;
    assert!(request.starts_with("PUT /api/v1/orchestrator/jobs HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("idempotency-key: key-1\r\n"), "{request}");
    assert!(request.contains("content-type: application/json\r\n"), "{request}");
    assert!(request.ends_with(r#"{"Job":{"Name":"x","Type":"batch"}}"#), "{request}");
}

#[tokio::test]
async fn a_query_is_escaped() {
    let peer = Peer::json("200 OK", r#"{"History":[],"NextToken":""}"#).await;
    let client = Client::new(&peer.base_url).unwrap();
    let query = HistoryQuery {
        since: Some("2026-01-01T00:00:00+01:00".to_owned()),
        ..HistoryQuery::default()
    };
    client.job_history("j-12ab34cd", &query).await.unwrap();
    let request = peer.request().await;
    let path =
        "GET /api/v1/orchestrator/jobs/j-12ab34cd/history?since=2026-01-01T00%3A00%3A00%2B01%3A00 ";
    assert!(request.starts_with(path), "{request}");
}

#[tokio::test]
async fn a_refusal_is_the_error_envelope() {
    let peer = Peer::json(
        "404 Not Found",
        r#"{"Status":404,"Code":"JobNotFound","Message":"no job matches 'x'","RequestID":"r"}"#,
    )
    .await;
    let error = Client::new(&peer.base_url).unwrap().describe_job("x").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::JobNotFound));
    assert_eq!(error.to_string(), "no job matches 'x' (JobNotFound, 404)");
}

#[tokio::test]
async fn an_unexpected_response_is_quoted() {
    let peer = Peer::json("502 Bad Gateway", "<html>upstream away</html>").await;
    let error = Client::new(&peer.base_url).unwrap().alive().await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol { .. }));
    assert!(
        error.to_string().contains("502 Bad Gateway with the body '<html>upstream away"),
        "{error}"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let response =
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let peer = Peer::responding(vec![response.as_bytes().to_vec()]).await;
    let error = Client::new(&peer.base_url).unwrap().alive().await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol { .. }), "{error}");
}
