//! `jobctl version`.

use api_types::version::VersionRecord;
use insta::assert_snapshot;

use crate::service::Service;
use crate::transcript::Transcript;

/// Replaces values that differ between builds.
fn normal(transcript: Transcript) -> String {
    let version = VersionRecord::current();
    let stdout = transcript
        .stdout
        .replace(&version.git_commit[..8], "COMMIT..")
        .replace(&format!("{}/{}", version.goos, version.goarch), "PLATFORM");
    Transcript { stdout, ..transcript }.normal()
}

#[tokio::test]
async fn both_versions_are_shown() {
    let service = Service::start().await;
    assert_snapshot!("versions", normal(service.run(&["version"]).await));
    assert_snapshot!("version_of_client", normal(service.run(&["version", "--client"]).await));
    let json = service.run(&["version", "-o", "json"]).await;
    let versions: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(versions["Server"], versions["Client"]);
}
