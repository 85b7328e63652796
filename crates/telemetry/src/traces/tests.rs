//! A tracer is off without an endpoint, samples evenly, and never blocks.

use std::time::Instant;

use uuid::Uuid;

use super::*;

fn settings(endpoint: &str, sampling_ratio: f64) -> OtlpSettings {
    OtlpSettings { endpoint: endpoint.to_owned(), sampling_ratio, ..OtlpSettings::default() }
}

/// Random ids of version 4, like those of the service.
fn job(number: u128) -> JobId {
    let bytes = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes();
    JobId::from_uuid(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

fn span(number: u128) -> Span {
    let at = job_span(job(number));
    Span {
        name: "job",
        at,
        parent: None,
        kind: Kind::Internal,
        from: Timestamp(1),
        to: Timestamp(2),
        attributes: Vec::new(),
        links: Vec::new(),
        error: None,
    }
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_traced() {
    let tracer = Tracer::start(&OtlpSettings::default(), "test", String::new()).unwrap();
    assert!(!tracer.is_on() && !tracer.samples(job(1)));
    let header = job_span(job(1)).to_string();
    assert_eq!(tracer.context(Some(&header)), None);
    tracer.record(span(1));
    tracer.shutdown().await;
}

#[tokio::test]
async fn the_ratio_is_the_fraction_of_jobs_that_are_traced() {
    for (ratio, expected) in [(0.0, 0..=0), (0.25, 200..=300), (1.0, 1000..=1000)] {
        let tracer = Tracer::start(&settings("http://127.0.0.1:9", ratio), "test", String::new());
        let tracer = tracer.unwrap();
        let traced = (0..1000).filter(|number| tracer.samples(job(*number))).count();
        assert!(expected.contains(&traced), "{ratio}: {traced}");
    }
}

/// The listener never accepts: connections open, and requests get no response.
#[tokio::test]
async fn an_unresponsive_collector_does_not_block() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let tracer = Tracer::start(&settings(&endpoint, 1.0), "test", String::new()).unwrap();
    let began = Instant::now();
    // Exceeds the capacity of the queue; the rest is dropped.
    for number in 0..4 * QUEUE_SPANS as u128 {
        tracer.record(span(number));
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    tracer.shutdown().await;
    assert!(began.elapsed() < FLUSH_TIMEOUT + Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn settings_are_validated_and_debug_hides_headers() {
    let wrong = |settings: OtlpSettings| settings.check().unwrap_err().0;
    assert_eq!(wrong(settings("collector:4318", 1.0)), "otlp.endpoint");
    assert_eq!(wrong(settings("", 1.5)), "otlp.sampling_ratio");
    let headers = [("authorization".to_owned(), "Bearer secret".to_owned())];
    let good = OtlpSettings { headers: headers.into(), ..settings("http://c:4318/", 0.5) };
    assert_eq!(good.check(), Ok(()));
    assert_eq!(good.traces_endpoint().as_deref(), Some("http://c:4318/v1/traces"));
    assert!(!format!("{good:?}").contains("secret"));
    let same = settings("http://c:4318/v1/traces", 1.0);
    assert_eq!(same.traces_endpoint(), good.traces_endpoint());
    let bad = OtlpSettings { headers: [("a b".to_owned(), String::new())].into(), ..good };
    assert_eq!(wrong(bad), "otlp.headers");
}

#[test]
fn test_ids_are_of_version_4() {
    assert_eq!(job(5).uuid().get_version(), Some(uuid::Version::Random));
    assert_ne!(job(5), JobId::from_uuid(Uuid::nil()));
}
